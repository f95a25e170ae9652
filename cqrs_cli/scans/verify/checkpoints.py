"""The checkpoint of `verify --incremental DIR`, from which the next verification continues.

A verification writes a new generation: a folder in DIR, with a folder for each partition (`checkpoint_files`).

`verified.json` names the valid generation and its topics. It is replaced after the new generation is complete and on
disk. So after a crash, the old generation is still valid.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from cqrs_cli.errors import UnavailableError, UsageError
from cqrs_cli.scans.verify.checkpoint_files import folder_errors
from cqrs_cli.storage.private import PRIVATE_FOLDER, atomic_write, sync_folder
from cqrs_cli.system.lock import try_lock

HEAD_FILE = "verified.json"
_LOCK_FILE = "lock"
_GENERATION = "generation-"


class CheckpointScope(Struct, frozen=True, kw_only=True):
    """The topics and settings of a checkpoint, which is valid only for the same topics and settings."""

    format: Literal["cqrs.verified/2"] = "cqrs.verified/2"
    aggregate: str
    cluster: str
    topics: dict[str, str]  # topic name → topic id
    partitions: int  # current partition count
    partitioner: str
    dedup_window: int  # ms
    longest_window: int  # ms; the longest dedup window of any run
    counts: tuple[int, ...] = ()  # partition counts so far; empty if never repartitioned

    def difference(self, earlier_scope: "CheckpointScope") -> str:
        """Return a message about the first difference from an earlier scope; an empty text without a difference."""
        for name in self.topics:
            if name in earlier_scope.topics and earlier_scope.topics[name] != self.topics[name]:
                return f"topic {name} was recreated"
        for name in ("aggregate", "cluster", "topics", "partitions", "partitioner"):
            if name == "partitions" and earlier_scope.partitions in self.counts:
                continue
            if (current := getattr(self, name)) != (previous := getattr(earlier_scope, name)):
                return f"its {name} was {_text(previous)}, and is now {_text(current)}"
        for name in ("dedup_window", "longest_window"):
            if (current := getattr(self, name)) != (previous := getattr(earlier_scope, name)):
                return f"its {name} was {previous} ms, and is now {current} ms"
        return ""


class _Head(Struct, frozen=True, rename={"scope": "proved"}):
    """The content of `verified.json`."""

    scope: CheckpointScope  # `proved` in JSON
    generation: int


class CheckpointFolders(NamedTuple):
    """The folders of two checkpoints: of the earlier verification, and of the verification that is running."""

    earlier: Path | None  # None for the first verification
    new: Path


@contextmanager
def new_checkpoint(folder: Path, scope: CheckpointScope) -> Iterator[CheckpointFolders]:
    """Create a new checkpoint in `folder`, which becomes valid when the block ends without an error.

    Raises `UsageError` if the folder has a checkpoint of other topics or settings, or files of another program;
    `ConfigurationError` if the folder cannot be used; `UnavailableError` while another verification uses the folder.
    """
    with ExitStack() as stack:
        with folder_errors(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
            head = _read_head(folder, scope)  # raises for a wrong folder, before a lock file is created in it
            lock = stack.enter_context((folder / _LOCK_FILE).open("a"))
            if not try_lock(lock.fileno()):
                raise UnavailableError(f"another verify uses {folder}", "wait until it ends, or stop it")
            head = _read_head(folder, scope)  # again: another verification may have replaced the file
            generation = 0 if head is None else head.generation
            earlier = None if head is None else folder / f"{_GENERATION}{generation}"
            _remove_other_generations(folder, earlier)
            new = folder / f"{_GENERATION}{generation + 1}"
            new.mkdir(mode=PRIVATE_FOLDER)
        yield CheckpointFolders(earlier, new)
        with folder_errors(folder):
            sync_folder(new)
            with atomic_write(folder / HEAD_FILE) as file:
                file.write(msgspec.json.encode(_Head(scope, generation + 1)))
            _remove_other_generations(folder, new)


def _read_head(folder: Path, scope: CheckpointScope) -> _Head | None:
    file = folder / HEAD_FILE
    if not file.exists():
        foreign_files = [path.name for path in folder.iterdir() if not _is_verify_file(path)]
        if foreign_files:
            raise UsageError(
                f"{folder} is not a folder of verify --incremental: it holds {sorted(foreign_files)[0]}",
                "choose a new folder",
            )
        return None
    try:
        head = msgspec.json.decode(file.read_bytes(), type=_Head)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{file} cannot be read: {error}", "choose a new folder: everything is verified again"
        ) from error
    if difference := scope.difference(head.scope):
        raise UsageError(
            f"{folder} belongs to other topics or settings: {difference}",
            "choose a new folder: everything is verified again",
        )
    return head


def _is_verify_file(path: Path) -> bool:
    return path.name == _LOCK_FILE or path.name.startswith((_GENERATION, f".{HEAD_FILE}."))


def _remove_other_generations(folder: Path, current: Path | None) -> None:
    for path in folder.glob(f"{_GENERATION}*"):
        if path != current:
            shutil.rmtree(path)
    for draft in folder.glob(f".{HEAD_FILE}.*"):
        draft.unlink()


def _text(value: object) -> str:
    return ", ".join(value) if isinstance(value, dict) else str(value)
