"""The cache of Kafka's jars: each jar is downloaded once, and checked."""

import hashlib
import multiprocessing
from collections.abc import Collection
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka.embedded import jars
from cqrs_cli.kafka.embedded.download import OnDownload
from cqrs_cli.kafka.embedded.release import EMBEDDED, Jar, KafkaRelease
from tests.support.releases import OLDEST

CONTENT = {"a-1.jar": b"first", "b-1.jar": b"second", "c-1.jar": b"third"}
EXPECTED_JARS = tuple(
    Jar(f"org.sample:{name[0]}:1", hashlib.sha256(data).hexdigest()) for name, data in CONTENT.items()
)
RELEASE = KafkaRelease("1.2.3", megabytes=43, jars=EXPECTED_JARS)


class Mirror:
    """A local source of jars, which counts its requests."""

    def __init__(self, served: dict[str, bytes] = CONTENT) -> None:
        self.served = served
        self.requests = 0

    def __call__(self, expected_jars: Collection[Jar], folder: Path, on_count: OnDownload) -> None:
        self.requests += 1
        for number, (name, data) in enumerate(self.served.items(), start=1):
            (folder / name).write_bytes(data)
            on_count(number, number * 1_000_000)


def ensure_jars(folder: Path, mirror: jars.Download) -> Path:
    return jars.ensure_jars(lambda _: None, folder=folder, release=RELEASE, download_jars=mirror)


def fail_if_called(expected_jars: Collection[Jar], folder: Path, on_count: OnDownload) -> None:
    raise AssertionError("the network was used")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A complete cache."""
    return ensure_jars(tmp_path / "kafka", Mirror())


def test_first_call_fetches_all_jars(tmp_path: Path) -> None:
    folder = ensure_jars(tmp_path / "not" / "yet" / "kafka", Mirror())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENT


def test_a_complete_cache_needs_no_network(cache: Path) -> None:
    assert ensure_jars(cache, fail_if_called) == cache


def test_a_missing_jar_is_downloaded(cache: Path) -> None:
    (cache / "b-1.jar").unlink()
    assert not jars.wrong_jars(ensure_jars(cache, Mirror()), EXPECTED_JARS)


def test_a_truncated_jar_is_downloaded(cache: Path) -> None:
    (cache / "b-1.jar").write_bytes(b"sec")
    assert jars.wrong_jars(cache, EXPECTED_JARS) == ["b-1.jar"]
    assert not jars.wrong_jars(ensure_jars(cache, Mirror()), EXPECTED_JARS)


def test_an_interrupted_download_leaves_nothing(tmp_path: Path) -> None:
    def interrupt_download(expected_jars: Collection[Jar], folder: Path, on_count: OnDownload) -> None:
        (folder / "a-1.jar").write_bytes(b"fir")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_jars(tmp_path / "kafka", interrupt_download)
    assert [path.name for path in tmp_path.iterdir()] == ["kafka.lock"]


def test_half_a_download_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "kafka.part").mkdir()
    (tmp_path / "kafka.part" / "stray.jar").write_bytes(b"half")
    folder = ensure_jars(tmp_path / "kafka", Mirror())
    assert {path.name for path in folder.iterdir()} == set(CONTENT)
    assert not (tmp_path / "kafka.part").exists()


def test_jars_with_other_bytes_are_refused(cache: Path) -> None:
    (cache / "c-1.jar").unlink()
    with pytest.raises(UnavailableError, match=r"1 of 3 .*: b-1\.jar"):
        ensure_jars(cache, Mirror({**CONTENT, "b-1.jar": b"tampered"}))
    assert (cache / "a-1.jar").read_bytes() == CONTENT["a-1.jar"]


def test_unwritable_cache_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot write the cache .*CQRS_CACHE_DIR"):
        ensure_jars(tmp_path / "file" / "kafka", Mirror())


def _fetch_and_count(folder: Path, count_file: Path) -> None:
    def counting_download(expected_jars: Collection[Jar], part_folder: Path, on_count: OnDownload) -> None:
        with count_file.open("a") as file:
            file.write("called\n")
        Mirror()(expected_jars, part_folder, on_count)

    ensure_jars(folder, counting_download)


def test_simultaneous_commands_fetch_once(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    arguments = (tmp_path / "kafka", tmp_path / "count")
    commands = [spawn.Process(target=_fetch_and_count, args=arguments) for _ in range(3)]
    for command in commands:
        command.start()
    for command in commands:
        command.join(60)
    assert [command.exitcode for command in commands] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "called\n"


def test_progress_off_terminal_is_short(tmp_path: Path) -> None:
    notes: list[str] = []
    jars.ensure_jars(notes.append, folder=tmp_path / "kafka", release=RELEASE, download_jars=Mirror())
    assert notes[0] == "fetching Apache Kafka 1.2.3, once: 3 jars, about 43 MB"
    assert notes[-1] == "fetching Apache Kafka 1.2.3: 3 of 3 jars, 3 MB"


def test_terminal_shows_every_change(tmp_path: Path) -> None:
    lines: list[str] = []
    jars.ensure_jars(lambda _: None, lines.append, tmp_path / "kafka", RELEASE, Mirror())
    assert lines == [
        "fetching Apache Kafka 1.2.3: 1 of 3 jars, 1 MB",
        "fetching Apache Kafka 1.2.3: 2 of 3 jars, 2 MB",
        "fetching Apache Kafka 1.2.3: 3 of 3 jars, 3 MB",
    ]


@pytest.mark.parametrize("release", [OLDEST, EMBEDDED], ids=lambda release: release.version)
def test_releases_name_broker_and_logging(release: KafkaRelease) -> None:
    names = {jar.coordinates.split(":")[1] for jar in release.jars}
    assert {"kafka_2.13", "kafka-server", "log4j-slf4j-impl"} <= names
    assert f"org.apache.kafka:kafka_2.13:{release.version}" in {jar.coordinates for jar in release.jars}
    assert {len(jar.sha256) for jar in release.jars} == {64}


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"CQRS_CACHE_DIR": "/own", "XDG_CACHE_HOME": "/xdg"}, "/own/kafka-1.2.3"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/cqrs/kafka-1.2.3"),
        ({"HOME": "/home/ada"}, "/home/ada/.cache/cqrs/kafka-1.2.3"),
    ],
)
def test_cache_folder_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], folder: str
) -> None:
    for name in ("CQRS_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert jars.cache_folder(RELEASE) == Path(folder)
