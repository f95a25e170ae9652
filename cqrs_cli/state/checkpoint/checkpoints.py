"""`Checkpoints`: the checkpoints of one partition, in its folder of the store."""

import hashlib
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from cqrs_cli.errors import CqrsError
from cqrs_cli.observer import reached
from cqrs_cli.state.checkpoint.manifest import DATA_SUFFIX, MANIFEST_SUFFIX, Manifest, read_manifest
from cqrs_cli.storage.folder import FileUnavailableError, StorageFolder, file_chunks


class DamagedCheckpointError(CqrsError):
    """The data of a checkpoint do not match its manifest."""


class Checkpoints:
    """The checkpoints of one partition. The methods raise `UnavailableError` if the store does not answer.

    Writing uploads the data, then the manifest, then removes old checkpoints. Reading lists the manifests, then
    downloads and checks the data of one checkpoint.
    """

    def __init__(self, folder: StorageFolder) -> None:
        self.folder = folder

    def manifests(self) -> list[Manifest]:
        """Return the readable manifests, the newest first. Each unreadable manifest is reported to the operator."""
        manifests = []
        for name in self._manifest_names():
            try:
                manifests.append(read_manifest(name, self.folder.read(name)))
            except ValueError as error:
                reached("message", text=f"checkpoint {self.folder.uri}/{name}: {error}")
            except FileUnavailableError as error:  # damaged, or removed since it was listed
                reached("message", text=f"checkpoint {name}: {error.message}")
        return manifests[::-1]

    def newest(self) -> Manifest | None:
        """Return the newest readable manifest; None if no manifest is readable."""
        return next(iter(self.manifests()), None)

    def _manifest_names(self) -> list[str]:
        return [file.name for file in self.folder.files() if file.name.endswith(MANIFEST_SUFFIX)]

    def write(self, data: Path, make_manifest: Callable[[int, str], Manifest], keep: int) -> Manifest:
        """Upload a copy of a shard, then its manifest; then remove all but the newest `keep` checkpoints.

        `make_manifest` returns the manifest for the size and the SHA-256 of the data.
        """
        size, digest = data.stat().st_size, file_digest(data)
        manifest = make_manifest(size, digest)
        self.folder.write(manifest.data_file, file_chunks(data))
        reached("checkpoint.uploaded")
        name, content = manifest.encoded()
        self.folder.write(name, iter([content]))
        reached("checkpoint.written")
        self._remove_old(keep)
        return manifest

    def next_time(self, newest: Manifest | None) -> int:
        """Return the time of the next checkpoint (ms): later than the checkpoint `newest`, even if the clock lags."""
        now = time.time_ns() // 1_000_000
        return now if newest is None else max(now, newest.written + 1)

    def download(self, manifest: Manifest, path: Path, report_progress: Callable[[int], None]) -> None:
        """Download the data of a checkpoint; raises `DamagedCheckpointError` if it does not match the manifest.

        `report_progress` gets the number of downloaded bytes.
        """
        digest, downloaded_bytes = sha256(), 0
        with path.open("wb") as file:
            for chunk in self.folder.chunks(manifest.data_file):
                digest.update(chunk)
                file.write(chunk)
                downloaded_bytes += len(chunk)
                report_progress(downloaded_bytes)
                if downloaded_bytes > manifest.size:
                    break
        if downloaded_bytes != manifest.size:
            raise DamagedCheckpointError(f"{manifest} has {downloaded_bytes} of {manifest.size} bytes")
        if digest.hexdigest() != manifest.sha256:
            raise DamagedCheckpointError(f"{manifest} does not have the SHA-256 of its manifest")

    def _remove_old(self, keep: int) -> None:
        """Remove all manifests but the newest `keep`, then all data that are older than the oldest manifest kept. That
        includes the older data of interrupted uploads, which have no manifest.
        """
        names = self._manifest_names()
        old_names, new_names = names[:-keep], names[-keep:]
        for name in old_names:
            self.folder.remove(name)
        oldest_stem = min(_stem(name) for name in new_names)
        for file in self.folder.files():
            if file.name.endswith(DATA_SUFFIX) and file.name.removesuffix(DATA_SUFFIX) < oldest_stem:
                self.folder.remove(file.name)


def _stem(name: str) -> str:
    """Return the common stem of the names of a manifest and its data."""
    return name.rpartition("-")[0]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
