import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.cli.main import main
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.embedded import broker as embedded
from tests.support import AGGREGATES, ROOT

Init = Callable[..., Any]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two aggregates, in the working directory."""
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").mkdir()
    for name in ("__init__.py", "counter.py", "sensor.py"):
        shutil.copy(AGGREGATES / name, tmp_path / "aggregates")
    monkeypatch.chdir(tmp_path)
    return tmp_path


PUBLICATION = """
import cqrs_cli as cqrs
from aggregates.counter import Incremented

def publish(event: Incremented, at: cqrs.Recorded) -> list[cqrs.PublicEvent]:
    return [cqrs.PublicEvent("counted", at.aggregate_id, {})]

process = cqrs.Publication(publish, topic="shop.counts")
"""


@pytest.fixture
def init(
    root: Path, connection: Connection, prefix: str, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, Any]]:
    """A function that runs `cqrs init -o json` on the shared broker. It returns the exit code and the document."""

    def run(*arguments: str) -> tuple[int, Any]:
        broker = ["-b", connection.bootstrap_server, "--topic-prefix", prefix]
        status = main(["init", *arguments, *broker, "-q", "-o", "json"])
        output = capfd.readouterr()
        return status, json.loads(output.out or output.err)

    return run


def topic_results(document: Any) -> dict[str, str]:
    return {topic["topic"].split(".", 1)[1]: topic["result"] for topic in document["topics"]}


@pytest.mark.kafka
def test_init_creates_all_topics(init: Init) -> None:
    status, document = init()
    assert status == 0
    assert len(topic_results(document)) == 10
    assert set(topic_results(document).values()) == {"created"}
    assert set(topic_results(init()[1]).values()) == {"kept"}


@pytest.mark.kafka
def test_init_creates_public_topics(init: Init, root: Path, prefix: str) -> None:
    (root / "processes").mkdir()
    (root / "processes/feed.py").write_text(PUBLICATION)
    results = {topic["topic"]: topic for topic in init()[1]["topics"]}
    assert results[f"{prefix}shop.counts"]["result"] == "created"
    assert results[f"{prefix}shop.counts"]["partitions"] == 4
    assert results[f"{prefix}process.feed.positions"]["result"] == "created"
    _, manifests = init("--strimzi", "kafka")
    assert f"{prefix}shop.counts" in str(manifests)


@pytest.mark.kafka
def test_init_creates_named_topics_only(init: Init) -> None:
    _, document = init("counter", "counter", "--partitions", "2")
    assert list(topic_results(document)) == [
        f"counter.{kind}" for kind in ("commands", "events", "outcomes", "dead-letters", "deferred")
    ]
    assert [topic["partitions"] for topic in document["topics"]] == [2] * 5


@pytest.mark.kafka
def test_dry_runs_change_nothing(init: Init) -> None:
    for _ in range(2):
        status, document = init("counter", "--dry-run")
        assert (status, document["dry_run"]) == (0, True)
        assert set(topic_results(document).values()) == {"missing"}


@pytest.mark.kafka
def test_more_partitions_exit_3(init: Init) -> None:
    init("counter")
    assert init("counter", "--partitions", "4")[0] == 0
    status, document = init("counter", "--partitions", "8")
    assert (status, document["error"]["code"]) == (3, "CONFIGURATION")
    assert "have 4 partitions, not 8" in document["error"]["message"]
    assert document["error"]["hint"].startswith("raise the count: cqrs repartition -b")


def test_dry_runs_start_no_broker(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--dry-run", "--partitions", "3", "-o", "json"]) == 0
    output = capfd.readouterr()
    document = json.loads(output.out)
    assert {topic["result"] for topic in document["topics"]} == {"unknown"}
    assert {topic["partitions"] for topic in document["topics"]} == {3}
    assert "the embedded Kafka does not run" in output.err
    assert embedded.broker_status(root) is None
    assert not (root / ".cqrs").exists()


def test_an_unknown_aggregate_exits_2(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "conter", "--dry-run"]) == 2
    assert "no aggregate 'conter'" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["init", "run", "status"])
def test_a_project_without_aggregates_exits_2(
    command: str, root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(root / "aggregates")
    assert main([command]) == 2
    assert "there are no aggregates in" in capfd.readouterr().err


def test_spark_secrets_are_not_repeated(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "-b", "127.0.0.1:1", "--conf", "spark.authenticate.secret=hunter2"]) == 2
    output = capfd.readouterr().err
    assert "SPARK_CONF_DIR" in output
    assert "hunter2" not in output


def test_unreachable_brokers_take_one_line(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "-q", "-b", "127.0.0.1:1"]) == 4
    output = capfd.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith("error: no answer from Kafka at 127.0.0.1:1 (connection refused); ")


def test_secret_flags_and_unknown_properties_fail(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "-X", "sasl.password=hunter2"]) == 2
    assert main(["init", "-b", "127.0.0.1:1", "-X", "max.poll.recrods=5"]) == 3
    output = capfd.readouterr().err
    assert "--command-config" in output
    assert "max.poll.recrods" in output
    assert "hunter2" not in output


def test_manifests_need_no_broker(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--strimzi", "shop", "--partitions", "9", "-o", "json"]) == 0
    items = json.loads(capfd.readouterr().out)["items"]
    assert len(items) == 10 + 3
    assert items[0]["spec"]["partitions"] == 9
    assert embedded.broker_status(root) is None


def test_manifests_need_no_dry_run(root: Path) -> None:
    assert main(["init", "--strimzi", "shop", "--dry-run"]) == 2


def test_personal_fields_need_a_keys_topic(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The keys topic has the same number of partitions, also in manifests. Other aggregates have no keys topic."""
    shutil.copy(ROOT / "examples/customers/customers/customer.py", root / "aggregates")
    assert main(["init", "--dry-run", "--partitions", "3", "-o", "json"]) == 0
    output = capfd.readouterr()
    assert "customer: personal fields, and no keyring is set" in output.err
    topics = json.loads(output.out)["topics"]
    keys = [topic for topic in topics if topic["topic"].endswith(".keys")]
    assert keys == [{"topic": "customer.keys", "result": "unknown", "partitions": 3}]
    assert main(["init", "--strimzi", "kafka", "-o", "json"]) == 0
    items = json.loads(capfd.readouterr().out)["items"]
    assert [item["metadata"]["name"] for item in items if item["metadata"]["name"].endswith(".keys")] == [
        "customer.keys"
    ]
