"""A broker starts from its class data archive if it exists, and without it otherwise."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.kafka.embedded import broker as embedded
from cqrs_cli.kafka.embedded.jars import cache_folder
from cqrs_cli.kafka.embedded.process import broker_archive
from cqrs_cli.kafka.embedded.warm import warm_broker
from cqrs_cli.system.class_archive import ClassArchive
from cqrs_cli.system.java import find_java
from tests.support.archives import mapped_archives, write_archive
from tests.support.brokers import discard

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def archive(tmp_path: Path, kafka_root: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    """The archive of a cache that has Kafka's jars. The archive's file is not written yet."""
    jars = cache_folder()
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / jars.name).symlink_to(jars)
    monkeypatch.setenv("CQRS_CACHE_DIR", str(cache))
    return broker_archive(find_java(), cache_folder())


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    discard(tmp_path)


def test_broken_archive_stops_no_broker(archive: ClassArchive, root: Path) -> None:
    archive_file = write_archive(archive, b"no archive")
    broker = embedded.start_broker(root, short_lived=True)
    assert str(archive_file).encode() in Path(f"/proc/{broker.pid}/cmdline").read_bytes()
    assert archive_file not in mapped_archives(broker.pid)


@pytest.mark.nightly
def test_broker_starts_from_its_archive(archive: ClassArchive, root: Path) -> None:
    """Only `make nightly` runs this test, because writing an archive takes half a minute."""
    archive_file = warm_broker(archive.java, print)
    broker = embedded.start_broker(root, short_lived=True)
    assert archive_file in mapped_archives(broker.pid)
    discard(root)
    archive_file.chmod(0o600)
    archive_file.write_bytes(archive_file.read_bytes()[: 1 << 20])
    assert mapped_archives(embedded.start_broker(root, short_lived=True).pid).isdisjoint({archive_file})
