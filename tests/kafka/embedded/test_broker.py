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


def state(root: Path) -> BrokerState:
    found = files.read_state(files.broker_folder(root))
    assert found is not None
    return found


def write(root: Path, changed: BrokerState) -> None:
    files.write_state(files.broker_folder(root), changed)


def topics(broker: Broker) -> set[str]:
    return set(AdminClient({"bootstrap.servers": broker.bootstrap_server}).list_topics(timeout=20).topics)


def create_topic(broker: Broker, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_server})
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
    """Log and data contain the records that were sent. A folder from before this rule is fixed, too."""
    home = files.broker_folder(root)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    home.chmod(0o755)
    embedded.stop_broker(root)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_topics_survive_killed_broker(root: Path) -> None:
    before = embedded.start_broker(root)
    create_topic(before, "kept-through-sigkill")
    kill(before)
    assert embedded.broker_status(root) is None
    after = embedded.start_broker(root)
    assert after.started
    assert "kept-through-sigkill" in topics(after)
    assert after.bootstrap_server == before.bootstrap_server
    assert after.pid != before.pid


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and /dev/full")
def test_full_disk_leaves_no_process(root: Path) -> None:
    """A broker without a state file would not be found by any command, and would block the port for the next start."""
    before = embedded.start_broker(root)
    embedded.stop_broker(root)
    home = files.broker_folder(root)
    full = home / f"{files.STATE_FILE}.new"
    full.symlink_to("/dev/full")
    with pytest.raises(ConfigurationError, match="No space left on device"):
        embedded.start_broker(root)
    assert processes_in_folder(home) == []
    full.unlink()
    after = embedded.start_broker(root)
    assert (after.bootstrap_server, processes_in_folder(home)) == (before.bootstrap_server, [after.pid])


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
    assert "kept-through-stop" in topics(embedded.start_broker(root))


def test_reused_process_id_is_not_ours(root: Path) -> None:
    embedded.stop_broker(root)
    write(root, replace(state(root), pid=os.getpid()))
    assert embedded.broker_status(root) is None
    assert not embedded.stop_broker(root)
    assert embedded.start_broker(root).started


def test_other_cluster_is_not_our_broker(root: Path) -> None:
    truth = state(root)
    write(root, replace(truth, cluster_id="somebody-else"))
    try:
        assert embedded.broker_status(root) is None
    finally:
        write(root, truth)


def test_garbled_state_file_is_ignored(root: Path) -> None:
    embedded.stop_broker(root)
    (files.broker_folder(root) / files.STATE_FILE).write_text('{"pid": 1')
    assert embedded.broker_status(root) is None
    assert embedded.start_broker(root).started


def test_taken_port_is_replaced(root: Path) -> None:
    embedded.stop_broker(root)
    taken = state(root).port
    with socket.create_server(("127.0.0.1", taken)):
        broker = embedded.start_broker(root)
    assert broker.bootstrap_server != f"127.0.0.1:{taken}"


def test_port_taken_during_start_is_retried(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded.stop_broker(root)
    free = broker_process.choose_ports
    with socket.create_server(("127.0.0.1", 0)) as taker:
        choices = iter([(taker.getsockname()[1], free(None)[1]), free(None)])
        monkeypatch.setattr(broker_process, "choose_ports", lambda before: next(choices))
        assert embedded.start_broker(root).started
    assert next(choices, None) is None


@pytest.mark.covers("no-foreign-code")
def test_it_listens_on_loopback_only(root: Path) -> None:
    held = listening_sockets(state(root).pid)
    assert {state(root).port, state(root).controller_port} <= held.keys()
    assert reachable_sockets(state(root).pid) == {}
    for port in held:
        with pytest.raises(ConnectionRefusedError):  # a broker on all interfaces would answer here too
            socket.create_connection(("127.0.0.2", port), timeout=5)


def test_the_log_says_what_happened(root: Path) -> None:
    assert "Kafka Server started" in embedded.start_broker(root).log.read_text()


def test_copied_project_starts_its_own_broker(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / ".cqrs", tmp_path / ".cqrs")
    assert embedded.broker_status(tmp_path) is None
    assert not embedded.stop_broker(tmp_path)


STARTING = """
import signal, sys
from pathlib import Path
from cqrs_cli.kafka.embedded.broker import start_broker
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
start_broker(Path(sys.argv[1]))
"""


def test_an_interrupted_start_leaves_no_broker(root: Path) -> None:
    embedded.stop_broker(root)
    before = state(root).pid
    with subprocess.Popen([sys.executable, "-c", STARTING, str(root)], stderr=subprocess.DEVNULL) as starting:
        eventually(lambda: state(root).pid != before)
        starting.send_signal(signal.SIGINT)
    assert starting.returncode == -signal.SIGINT
    assert process.start_time(state(root).pid) is None


def test_broker_that_dies_starting_is_explained(root: Path) -> None:
    embedded.stop_broker(root)
    meta = files.broker_folder(root) / files.DATA_FOLDER / "meta.properties"
    whole = meta.read_text()
    meta.write_text(whole.replace("node.id=1", "node.id=7"))
    try:
        with pytest.raises(UnavailableError, match=r"ended while it started: .*node.*; see .*kafka\.log"):
            embedded.start_broker(root)
    finally:
        meta.write_text(whole)


def test_damaged_data_is_never_formatted(root: Path) -> None:
    embedded.stop_broker(root)
    meta = files.broker_folder(root) / files.DATA_FOLDER / "meta.properties"
    meta.rename(meta.with_name("kept"))
    try:
        with pytest.raises(ConfigurationError, match=r"holds no meta\.properties"):
            embedded.start_broker(root)
    finally:
        meta.with_name("kept").rename(meta)


def test_unwritable_folder_is_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot write"):
        embedded.start_broker(tmp_path / "file")


def test_status_and_stop_create_nothing(tmp_path: Path) -> None:
    assert embedded.broker_status(tmp_path) is None
    assert not embedded.stop_broker(tmp_path)
    assert list(tmp_path.iterdir()) == []
