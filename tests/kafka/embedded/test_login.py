"""Only the user of the embedded broker can use it, also on a machine with other users."""

import json
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.connection.connection_error import connection_error
from cqrs_cli.kafka.embedded import broker as embedded
from cqrs_cli.kafka.embedded import files, login
from cqrs_cli.kafka.embedded.broker import Broker
from cqrs_cli.kafka.embedded.process import format_data
from cqrs_cli.settings.java_properties import parse_properties
from cqrs_cli.settings.settings import load_settings
from tests.support import ROOT
from tests.support.brokers import discard

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SEND_PROGRAM = """
import cqrs_cli as cqrs
from aggregates.counter import Increment
with cqrs.Client() as client:
    client.send("c-1", Increment())
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose embedded broker is stopped after the tests."""
    root = tmp_path_factory.mktemp("project")
    (root / "cqrs.toml").touch()
    (root / "aggregates").symlink_to(ROOT / "aggregates")
    try:
        yield root
    finally:
        discard(root)


@pytest.fixture
def broker(root: Path) -> Broker:
    return embedded.start_broker(root)


def port(broker: Broker) -> int:
    return int(broker.bootstrap_server.rpartition(":")[2])


def broker_count(cluster: Cluster) -> int:
    with Admin(cluster) as admin:
        return admin.broker_count()


def run_cqrs(root: Path, line: str) -> str:
    command = [sys.executable, "-m", "cqrs_cli", *shlex.split(line)]
    process = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=180)
    assert process.returncode == 0, (line, process.stdout, process.stderr)
    assert "credentials" not in process.stderr  # of kafka-python, about logins without TLS
    return process.stdout


@pytest.mark.covers("no-foreign-code")
def test_client_without_login_is_refused(broker: Broker) -> None:
    with pytest.raises(UnavailableError, match="it requires a login"):
        broker_count(Cluster(broker.bootstrap_server))


def test_wrong_password_is_refused(broker: Broker) -> None:
    wrong = Cluster(broker.bootstrap_server, login.client_properties("wrong"))
    with pytest.raises(UnavailableError, match="login"):
        broker_count(wrong)


def test_unreachable_error_names_rejected_login(broker: Broker) -> None:
    """The password may change while a run uses it."""
    wrong = Cluster(broker.bootstrap_server, login.client_properties("wrong"))
    assert "it rejects the login" in clients.unreachable_error(wrong, "Timed out").message


def test_controller_requires_a_login(root: Path, broker: Broker) -> None:
    state = files.read_state(files.broker_folder(root))
    assert state is not None
    error = connection_error(Cluster(f"{files.HOST}:{state.controller_port}", broker.client_properties), 10)
    assert error is not None and "it accepts PLAIN" in error.message


def test_files_with_password_are_private(root: Path, broker: Broker) -> None:
    folder = files.broker_folder(root)
    password = login.require_password(folder).encode()
    with_password = {path for path in folder.rglob("*") if path.is_file() and password in path.read_bytes()}
    names = {login.CLIENT_FILE, login.LIBRDKAFKA_FILE, files.SERVER_FILE}
    assert with_password == {folder / name for name in names}
    assert {stat.S_IMODE(path.stat().st_mode) for path in with_password} == {0o600}


def test_no_command_line_has_the_password(tmp_path: Path) -> None:
    """Other users can read the command lines of all processes."""
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\necho "$@"\nexit 1\n')
    java.chmod(0o700)
    with pytest.raises(UnavailableError, match="StorageTool") as raised:
        format_data(java, Path("jars"), tmp_path, "secret-password")
    assert "secret-password" not in raised.value.message


def test_files_serve_other_clients(root: Path, broker: Broker) -> None:
    assert broker.command_config is not None
    settings = load_settings({"command_config": broker.command_config}, root)
    assert settings.bootstrap_server == broker.bootstrap_server
    assert broker_count(Cluster(broker.bootstrap_server, settings.client_properties())) == 1
    text = (files.broker_folder(root) / login.LIBRDKAFKA_FILE).read_text()
    assert len(AdminClient({**parse_properties(text)}).list_topics(timeout=20).brokers) == 1


@pytest.mark.spark
@pytest.mark.nightly
def test_commands_log_in_by_themselves(root: Path) -> None:
    for line in ("kafka start", "init counter", "send counter c-1 Increment"):
        run_cqrs(root, line)
    subprocess.run([sys.executable, "-c", SEND_PROGRAM], cwd=root, check=True)
    run_cqrs(root, "kafka stop")
    run_cqrs(root, "run --once counter")
    assert json.loads(run_cqrs(root, "show counter c-1 -o json"))["version"] == 2
    assert json.loads(run_cqrs(root, "verify counter -o json"))["violations"] == []
    assert '"n":2' in run_cqrs(root, 'sql "SELECT count(*) AS n FROM counter_events" --format json')
    assert "counter" in run_cqrs(root, "status")


def test_password_survives_a_restart(root: Path, broker: Broker) -> None:
    embedded.stop_broker(root)
    assert embedded.start_broker(root).client_properties == broker.client_properties


def test_missing_login_names_the_remedy(root: Path, broker: Broker) -> None:
    assert broker.command_config is not None
    broker.command_config.unlink()
    for command in (embedded.broker_status, embedded.start_broker):
        with pytest.raises(ConfigurationError, match=r"client\.properties is missing .* cqrs kafka stop"):
            command(root)
    assert embedded.stop_broker(root)
    again = embedded.start_broker(root)
    assert again.client_properties != broker.client_properties
    assert broker_count(Cluster(again.bootstrap_server, again.client_properties)) == 1


def test_password_of_other_data_is_reported(root: Path, broker: Broker) -> None:
    """A restored backup may have the data, but not the file with their password."""
    assert broker.command_config is not None
    embedded.stop_broker(root)
    login.write_client_files(files.broker_folder(root), port(broker), "another")
    with pytest.raises(ConfigurationError, match="belongs to other data; remove the file"):
        embedded.start_broker(root)
    assert embedded.broker_status(root) is None
    broker.command_config.unlink()
    assert embedded.start_broker(root).started


def test_data_of_earlier_versions_gets_a_login(tmp_path: Path) -> None:
    """A broker that an earlier version started is used as before until its next start."""
    (tmp_path / "cqrs.toml").touch()
    try:
        embedded.start_broker(tmp_path, short_lived=True, require_login=False)
        state_file = files.broker_folder(tmp_path) / files.STATE_FILE
        state = json.loads(state_file.read_text())
        del state["has_login"]
        state_file.write_text(json.dumps(state))
        run_cqrs(tmp_path, "kafka")
        earlier = embedded.start_broker(tmp_path)
        assert (earlier.started, earlier.client_properties) == (False, {})
        with Admin(Cluster(earlier.bootstrap_server)) as admin:
            admin.create("kept", partitions=1, replication=1, configs={})
        embedded.stop_broker(tmp_path)
        broker = embedded.start_broker(tmp_path, short_lived=True)
        with Admin(Cluster(broker.bootstrap_server, broker.client_properties)) as admin:
            assert "kept" in admin.describe(["kept"])
        assert broker.bootstrap_server == earlier.bootstrap_server
        error = connection_error(Cluster(broker.bootstrap_server))
        assert error is not None and "it requires a login" in error.message
    finally:
        discard(tmp_path)
