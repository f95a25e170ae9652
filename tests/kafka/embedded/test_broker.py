"""One broker is killed, loses its port and is restarted, and always keeps its topics."""

import multiprocessing
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.embedded import broker as embedded
from cqrs_cli.kafka.embedded import files
from cqrs_cli.kafka.embedded import process as broker_process
from cqrs_cli.kafka.embedded.broker import Broker
from cqrs_cli.kafka.embedded.files import BrokerState
from cqrs_cli.system import process
from tests.support.brokers import discard
from tests.support.listening_sockets import listening_sockets, processes_in_folder, reachable_sockets
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose path would confuse Kafka's settings."""
    root = tmp_path_factory.mktemp("a, project") / "ü \\ b"
    root.mkdir()
    try:
        yield root
    finally:
        discard(root)


@pytest.fixture
def root(shared_root: Path) -> Path:
    """The project with its running broker."""
    embedded.start_broker(shared_root)
    return shared_root


def read_state(root: Path) -> BrokerState:
    broker_state = files.read_state(files.broker_folder(root))
    assert broker_state is not None
    return broker_state


def write_state(root: Path, new_state: BrokerState) -> None:
    files.write_state(files.broker_folder(root), new_state)


def admin_client(broker: Broker) -> AdminClient:
    return AdminClient(Cluster(broker.bootstrap_server, broker.client_properties).librdkafka())


def topic_names(broker: Broker) -> set[str]:
    return set(admin_client(broker).list_topics(timeout=20).topics)


def create_topic(broker: Broker, name: str) -> None:
    admin = admin_client(broker)
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)


def kill(broker: Broker) -> None:
    os.kill(broker.pid, signal.SIGKILL)
    eventually(lambda: process.start_time(broker.pid) is None)


def test_second_start_finds_running_broker(root: Path) -> None:
    first, second = embedded.start_broker(root), embedded.start_broker(root)
    assert second == first
    assert not second.started
    assert embedded.start_broker(root).bootstrap_server == first.bootstrap_server


def test_broker_folder_is_its_owners_only(root: Path) -> None:
    """Log and data contain the records that were sent. The mode of an earlier version's folder is corrected."""
    folder = files.broker_folder(root)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)
    embedded.stop_broker(root)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_topics_survive_killed_broker(root: Path) -> None:
    first = embedded.start_broker(root)
    create_topic(first, "kept-through-sigkill")
    kill(first)
    assert embedded.broker_status(root) is None
    second = embedded.start_broker(root)
    assert second.started
    assert "kept-through-sigkill" in topic_names(second)
    assert second.bootstrap_server == first.bootstrap_server
    assert second.pid != first.pid


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and /dev/full")
def test_full_disk_leaves_no_process(root: Path) -> None:
    """A broker without a state file would not be found by any command, and would block the port for the next start."""
    first = embedded.start_broker(root)
    embedded.stop_broker(root)
    folder = files.broker_folder(root)
    state_link = folder / f"{files.STATE_FILE}.new"
    state_link.symlink_to("/dev/full")
    with pytest.raises(ConfigurationError, match="No space left on device"):
        embedded.start_broker(root)
    assert processes_in_folder(folder) == []
    state_link.unlink()
    second = embedded.start_broker(root)
    assert (second.bootstrap_server, processes_in_folder(folder)) == (first.bootstrap_server, [second.pid])


def test_concurrent_starts_share_one_broker(root: Path) -> None:
    embedded.stop_broker(root)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as commands:
        brokers = list(commands.map(embedded.start_broker, [root, root]))
    assert brokers[0].pid == brokers[1].pid
    assert sorted(broker.started for broker in brokers) == [False, True]
    assert embedded.start_broker(root).pid == brokers[0].pid


def test_stopping_twice_keeps_topics(root: Path) -> None:
    create_topic(embedded.start_broker(root), "kept-through-stop")
    assert embedded.stop_broker(root)
    assert not embedded.stop_broker(root)
    assert embedded.broker_status(root) is None
    assert "kept-through-stop" in topic_names(embedded.start_broker(root))


def test_reused_process_id_is_not_the_broker(root: Path) -> None:
    embedded.stop_broker(root)
    write_state(root, replace(read_state(root), pid=os.getpid()))
    assert embedded.broker_status(root) is None
    assert not embedded.stop_broker(root)
    assert embedded.start_broker(root).started


def test_other_cluster_is_not_the_broker(root: Path) -> None:
    original = read_state(root)
    write_state(root, replace(original, cluster_id="other-cluster"))
    try:
        assert embedded.broker_status(root) is None
    finally:
        write_state(root, original)


def test_garbled_state_file_is_ignored(root: Path) -> None:
    embedded.stop_broker(root)
    (files.broker_folder(root) / files.STATE_FILE).write_text('{"pid": 1')
    assert embedded.broker_status(root) is None
    assert embedded.start_broker(root).started


def test_taken_port_is_replaced(root: Path) -> None:
    embedded.stop_broker(root)
    port = read_state(root).port
    with socket.create_server(("127.0.0.1", port)):
        broker = embedded.start_broker(root)
    assert broker.bootstrap_server != f"127.0.0.1:{port}"


def test_port_taken_during_start_is_retried(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded.stop_broker(root)
    choose_ports = broker_process.choose_ports
    with socket.create_server(("127.0.0.1", 0)) as listener:
        choices = iter([(listener.getsockname()[1], choose_ports(None)[1]), choose_ports(None)])
        monkeypatch.setattr(broker_process, "choose_ports", lambda before: next(choices))
        assert embedded.start_broker(root).started
    assert next(choices, None) is None


@pytest.mark.covers("no-foreign-code")
def test_broker_listens_on_loopback_only(root: Path) -> None:
    addresses = listening_sockets(read_state(root).pid)
    assert {read_state(root).port, read_state(root).controller_port} <= addresses.keys()
    assert reachable_sockets(read_state(root).pid) == {}
    for port in addresses:
        with pytest.raises(ConnectionRefusedError):  # a broker on all interfaces would answer here too
            socket.create_connection(("127.0.0.2", port), timeout=5)


def test_log_reports_the_start(root: Path) -> None:
    assert "Kafka Server started" in embedded.start_broker(root).log.read_text()


def test_copied_project_starts_its_own_broker(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / ".cqrs", tmp_path / ".cqrs")
    assert embedded.broker_status(tmp_path) is None
    assert not embedded.stop_broker(tmp_path)


START_PROGRAM = """
import signal, sys
from pathlib import Path
from cqrs_cli.kafka.embedded.broker import start_broker
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
start_broker(Path(sys.argv[1]))
"""


def test_an_interrupted_start_leaves_no_broker(root: Path) -> None:
    embedded.stop_broker(root)
    old_pid = read_state(root).pid
    with subprocess.Popen(
        [sys.executable, "-c", START_PROGRAM, str(root)], stderr=subprocess.DEVNULL
    ) as starter:
        eventually(lambda: read_state(root).pid != old_pid)
        starter.send_signal(signal.SIGINT)
    assert starter.returncode == -signal.SIGINT
    assert process.start_time(read_state(root).pid) is None


def test_broker_that_dies_starting_is_explained(root: Path) -> None:
    embedded.stop_broker(root)
    properties_file = files.broker_folder(root) / files.DATA_FOLDER / "meta.properties"
    original = properties_file.read_text()
    properties_file.write_text(original.replace("node.id=1", "node.id=7"))
    try:
        with pytest.raises(UnavailableError, match=r"ended while it started: .*node.*; see .*kafka\.log"):
            embedded.start_broker(root)
    finally:
        properties_file.write_text(original)


def test_damaged_data_is_never_formatted(root: Path) -> None:
    embedded.stop_broker(root)
    properties_file = files.broker_folder(root) / files.DATA_FOLDER / "meta.properties"
    properties_file.rename(properties_file.with_name("kept"))
    try:
        with pytest.raises(ConfigurationError, match=r"holds no meta\.properties"):
            embedded.start_broker(root)
    finally:
        properties_file.with_name("kept").rename(properties_file)


def test_unwritable_folder_is_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot write"):
        embedded.start_broker(tmp_path / "file")


def test_status_and_stop_create_nothing(tmp_path: Path) -> None:
    assert embedded.broker_status(tmp_path) is None
    assert not embedded.stop_broker(tmp_path)
    assert list(tmp_path.iterdir()) == []
