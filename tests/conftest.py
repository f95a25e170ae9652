"""Fixtures for all tests: one real broker and one Spark session per run, and names that no other test uses."""

import gc
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import hypothesis
import pytest

from cqrs_cli.kafka.embedded import broker as embedded
from tests.support import brokers, distribution
from tests.support.patches import no_young_transactions, without_warm_up  # noqa: F401

# A JVM of the tests lives for seconds or minutes, too short a time for its second compiler. Without this compiler a
# broker takes two thirds of the processor time to start, and half of it afterwards: 14 s for 40 tests instead of 25 s.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

if TYPE_CHECKING:
    from pyspark import SparkContext

    from cqrs_cli.kafka.connection.connection import Connection
    from tests.scenarios.secured.broker import SecuredBroker
    from tests.support.harness import TopicHarness
    from tests.support.objects.running import Bucket, ObjectServer
    from tests.support.project import Project

pytest_plugins = ["tests.support.times"]  # pytest --times

# When a check in these modules fails, pytest shows the compared values.
pytest.register_assert_rewrite("tests.support.harness", "tests.following.processes.process_harness")

#: Environment variable: the address of a broker for the tests to use.
BOOTSTRAP_SERVER = "CQRS_TEST_BOOTSTRAP_SERVER"

#: Environment variable: the folder of the run's broker, for the run's processes.
KAFKA_ROOT = "CQRS_TEST_KAFKA_ROOT"

# No test measures time: on a busy machine an example may take any. `make nightly` tries many more examples.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], max_examples=30
)
hypothesis.settings.register_profile("long", hypothesis.settings.get_profile("untimed"), max_examples=10_000)
# For mutations a failure is enough: the smallest failing example is not needed.
hypothesis.settings.register_profile(
    "unshrunk",
    hypothesis.settings.get_profile("untimed"),
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
hypothesis.settings.load_profile("untimed")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file without slow tests for `make test-slow`: a process takes three seconds to import all files."""
    if not distribution.selects_slow(config.option.markexpr) or not collection_path.match("test_*.py"):
        return None
    return not distribution.may_be_slow(collection_path) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("PYTEST_XDIST_WORKER"):
        items.sort(key=distribution.rank)


def pytest_collection_finish() -> None:
    """Let the garbage collector skip all modules and tests: a tenth less processor time for small tests."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Close the consumers that a test has left behind, such as those in the traceback of an expected error. Otherwise
    each of them sends hundreds of fetch requests a second until the next complete garbage collection.
    """
    result = yield
    if item.get_closest_marker("kafka") or item.get_closest_marker("spark"):
        gc.collect(1)  # the objects since the previous collection
    return result


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    return distribution.grouped(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_configure(config: pytest.Config) -> None:
    """Make a folder for the run's broker, which all its processes share, and keep all files of the tests in memory."""
    gc.disable()  # until all tests are collected: modules and tests are no garbage
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        memory_folder = _memory_folder()
        os.environ[KAFKA_ROOT] = tempfile.mkdtemp(prefix="cqrs-tests-", dir=memory_folder)
        if memory_folder is not None:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory_folder))  # the parent of all tmp_path


def _memory_folder() -> Path | None:
    """Return a folder in memory that has room, or None. Databases and brokers on a disk wait for it at each commit."""
    folder = Path("/dev/shm")
    has_room = folder.is_dir() and shutil.disk_usage(folder).free > 8 << 30
    return folder if has_room else None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the run's broker, if a test has started it, however the run ends."""
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        root = Path(os.environ.pop(KAFKA_ROOT))
        brokers.discard(root)
        shutil.rmtree(root)


@pytest.fixture(scope="session")
def kafka_root() -> Path:
    """Start the run's broker, and return its project root."""
    root = Path(os.environ[KAFKA_ROOT])
    embedded.start_broker(root, print, require_login=False)  # tests pass its address alone
    return root


@pytest.fixture(scope="session")
def connection(request: pytest.FixtureRequest) -> "Connection":
    """Return a connection to the run's embedded broker, or to the broker that the environment names."""
    from cqrs_cli.kafka.connection.connection import Connection

    if server := os.environ.get(BOOTSTRAP_SERVER):
        return Connection(server)
    return Connection(
        embedded.start_broker(request.getfixturevalue("kafka_root"), require_login=False).bootstrap_server
    )


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SecuredBroker]":
    """The run's broker that requires TLS, logins and ACLs."""
    from tests.scenarios.secured.broker import secured

    with secured(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[ObjectServer]":
    """The one object store of the run."""
    from tests.support.objects.running import object_server

    with object_server(tmp_path_factory.mktemp("objects")) as server:
        yield server


@pytest.fixture
def bucket(object_store: "ObjectServer", monkeypatch: pytest.MonkeyPatch) -> "Iterator[Bucket]":
    """An empty bucket of the object store, with the credentials for it in the environment."""
    from tests.support.objects.running import CREDENTIALS

    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    bucket = object_store.bucket()
    yield bucket
    shutil.rmtree(bucket.folder, ignore_errors=True)  # now no request waits any more


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkContext]":
    """The one Spark session of the run, with two task slots."""
    from cqrs_cli.jobs.engine.session import session

    with session("local[2]", {}, tmp_path_factory.mktemp("spark") / "spark.log", "tests") as context:
        # Spark's workers have inherited the variable. Programs of other tests must find the modules of their folder.
        os.environ.pop("PYTHONSAFEPATH", None)
        yield context


@pytest.fixture(scope="session", autouse=True)
def collected_code() -> dict[str, ModuleType]:
    """Return the modules of aggregates, processes and projections that the test files imported."""
    return _user_modules()


@pytest.fixture(autouse=True)
def restored_user_code(collected_code: dict[str, ModuleType]) -> Iterator[None]:
    """Start each test with the modules of `collected_code`: other tests and fixtures may have loaded other modules.

    Aggregates and processes are restored together: a process refers to the aggregate classes that it imported.
    """
    _restore_modules(collected_code)
    yield
    _restore_modules(collected_code)


def _restore_modules(modules: dict[str, ModuleType]) -> None:
    loaded = _user_modules()
    if any(loaded.get(name) is not module for name, module in modules.items()):
        for name in loaded:
            del sys.modules[name]
        sys.modules.update(modules)


def _user_modules() -> dict[str, ModuleType]:
    packages = ("aggregates", "processes", "projections")
    names = [name for name in sys.modules if name.startswith(packages)]
    return {name: sys.modules[name] for name in names if name.partition(".")[0] in packages}


@pytest.fixture
def prefix() -> str:
    """A topic prefix that no other test uses."""
    return f"t{uuid.uuid4().hex[:8]}."


@pytest.fixture
def counters(connection: "Connection", prefix: str, tmp_path: Path) -> "TopicHarness":
    """Counters on one partition."""
    from tests.support.harness import TopicHarness

    return TopicHarness(connection, prefix, tmp_path)


@pytest.fixture
def two_partitions(connection: "Connection", prefix: str, tmp_path: Path) -> "TopicHarness":
    """Counters on two partitions: key `a` is on partition 0, key `d` on partition 1."""
    from tests.support.harness import TopicHarness

    counters = TopicHarness(connection, prefix, tmp_path, partitions=2)
    assert (counters.partition_of("a"), counters.partition_of("d")) == (0, 1)
    return counters


@pytest.fixture
def bank(connection: "Connection", prefix: str, tmp_path: Path) -> "TopicHarness":
    """Bank accounts on two partitions."""
    from tests.support.harness import TopicHarness

    return TopicHarness(connection, prefix, tmp_path, "bank_account", partitions=2)


@pytest.fixture
def single_bank(connection: "Connection", prefix: str, tmp_path: Path) -> "TopicHarness":
    """Bank accounts on one partition."""
    from tests.support.harness import TopicHarness

    return TopicHarness(connection, prefix, tmp_path, "bank_account")


@pytest.fixture
def project(tmp_path: Path, connection: "Connection", prefix: str) -> "Project":
    """A project with all aggregates in its own folder. Its topics are not created yet."""
    from tests.support.project import new_project

    return new_project(tmp_path, connection, prefix)
