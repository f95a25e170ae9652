"""Apache Kafka's jars: downloaded once for each user, and then available without a network.

A folder is complete if it has every jar of the release, with the right checksum. A download fills a folder with another
name, which is renamed at the end. So no command uses the folder of an interrupted download.
"""

import hashlib
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka.embedded.download import OnDownload, download
from cqrs_cli.kafka.embedded.release import EMBEDDED, Jar, KafkaRelease
from cqrs_cli.system.cache import user_cache
from cqrs_cli.system.lock import file_lock

#: Seconds to wait while another command downloads.
DOWNLOAD_TIMEOUT = 1800.0

Report = Callable[[str], None]
#: Downloads jars into an empty folder.
Download = Callable[[Collection[Jar], Path, OnDownload], None]


def cache_folder(release: KafkaRelease = EMBEDDED) -> Path:
    """Return the folder `kafka-<version>` in the user's cache."""
    return user_cache() / f"kafka-{release.version}"


def ensure_jars(
    report: Report,
    progress: Report | None = None,
    folder: Path | None = None,
    release: KafkaRelease = EMBEDDED,
    download_jars: Download = download,
) -> Path:
    """Return the folder with all jars; download them if it is missing or incomplete.

    `report` gets a line at the start of a download, and three lines about its progress. With `progress`, `report` gets
    only the first line, and `progress` gets the current count after each jar.

    Raises `ConfigurationError` if the cache cannot be written, `UnavailableError` if the jars cannot be downloaded.
    """
    folder = folder or cache_folder(release)
    if not wrong_jars(folder, release.jars):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(f"{folder.name}.lock")
        with file_lock(
            lock, lambda: report("another command is fetching Apache Kafka; waiting"), DOWNLOAD_TIMEOUT
        ):
            if wrong_jars(folder, release.jars):
                _replace_folder(
                    folder, release.jars, download_jars, _DownloadProgress(report, progress, release)
                )
    except OSError as error:
        hint = "free disk space, or name another folder in CQRS_CACHE_DIR"
        raise ConfigurationError(
            f"cannot write the cache {folder.parent}: {error.strerror or error}", hint
        ) from error
    return folder


def wrong_jars(folder: Path, expected_jars: Collection[Jar]) -> list[str]:
    """Return the names of the jars that are missing or have a wrong checksum."""
    return [jar.name for jar in expected_jars if _digest(folder / jar.name) != jar.sha256]


def _replace_folder(
    folder: Path, expected_jars: Collection[Jar], download_jars: Download, progress: "_DownloadProgress"
) -> None:
    """Download the jars, and replace the folder. The caller must hold the lock, because the folder of another download
    is deleted.
    """
    new_folder = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(new_folder, ignore_errors=True)
    new_folder.mkdir()
    try:
        progress.start()
        download_jars(expected_jars, new_folder, progress.report_count)
        wrong_names = wrong_jars(new_folder, expected_jars)
        if wrong_names:
            raise UnavailableError(
                f"{len(wrong_names)} of {len(expected_jars)} jars of Kafka have a wrong checksum: {wrong_names[0]}",
                "try again, or repair the mirror that served them",
            )
        shutil.rmtree(folder, ignore_errors=True)
        new_folder.rename(folder)
    finally:
        shutil.rmtree(new_folder, ignore_errors=True)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


class _DownloadProgress:
    """Reports the progress of the download: to `progress` after each jar or, if it is None, to `report` after each
    third of the jars.
    """

    def __init__(self, report: Report, progress: Report | None, release: KafkaRelease) -> None:
        self._report = report
        self._progress = progress
        self._release = release
        self._total = len(release.jars)
        self._reported_thirds = 0

    def start(self) -> None:
        size = f"{self._total} jars, about {self._release.megabytes} MB"
        self._report(f"fetching Apache Kafka {self._release.version}, once: {size}")

    def report_count(self, jars: int, size: int) -> None:
        text = f"fetching Apache Kafka {self._release.version}: {jars} of {self._total} jars, {size / 1e6:.0f} MB"
        thirds = jars * 3 // self._total
        if self._progress is not None:
            self._progress(text)
        elif thirds > self._reported_thirds:
            self._reported_thirds = thirds
            self._report(text)
