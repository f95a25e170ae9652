"""Checks whether the checkpoint store works, and how old the newest checkpoints are.

A missing checkpoint only costs time: a machine without shards then folds the whole log before it decides. So findings
are warnings, not failures.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from cqrs_cli.doctor.check import Check, ok, warn
from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.formatting import counted, rough_time
from cqrs_cli.observer import message_listener, observing
from cqrs_cli.payloads.transfer_pool import TransferPool
from cqrs_cli.settings.durations import show_duration
from cqrs_cli.state.checkpoint.checkpoints import Checkpoints
from cqrs_cli.state.checkpoint.manifest import Manifest
from cqrs_cli.state.identity import Identity
from cqrs_cli.storage.folder import open_folder

#: Timeout in seconds for an answer of the store.
STORE_TIMEOUT = 30.0

#: The number of concurrent requests to the store.
_CONCURRENCY = 8

#: The largest number of partitions that a finding names. The partitions with the largest lag are named first.
_MAX_NAMED = 8

_Key = TypeVar("_Key")
_Result = TypeVar("_Result")


class PartitionCheckpoint(NamedTuple):
    """The newest checkpoint of a partition, and the offset of the partition's first undecided command."""

    identity: Identity  # the identity of a shard that would be created now
    decided_offset: int  # the offset of the first undecided command
    newest: Manifest | None

    @property
    def offset_lag(self) -> int:
        """The number of offsets that were decided since the checkpoint."""
        return max(0, self.decided_offset - (0 if self.newest is None else self.newest.positions.commands))

    @property
    def age(self) -> float:
        """Seconds since the checkpoint was written; 0 if this machine's clock is slow."""
        return 0.0 if self.newest is None else max(0.0, time.time() - self.newest.written / 1000)

    @property
    def is_missing(self) -> bool:
        """True if there is no checkpoint although commands were decided."""
        return self.newest is None and self.decided_offset > 0

    @property
    def is_unusable(self) -> bool:
        """True if no owner would start from the checkpoint: it is for other topics, code or dedup window."""
        return self.newest is not None and self.newest.identity != self.identity

    def __str__(self) -> str:
        name = f"partition {self.identity.partition}"
        if self.newest is None:
            return f"{name} has no checkpoint"
        other_text = ", for other topics, code or dedup window" if self.is_unusable else ""
        return f"{name} ({rough_time(self.age)} old, {counted(self.offset_lag, 'offset')} behind{other_text})"


def check_checkpoint_store(uri: str, timeout: float = STORE_TIMEOUT) -> Iterator[Check]:
    """Check that the store answers and accepts a small file, which is removed at once."""
    try:
        folder = open_folder(uri, Path("/"))
        exists = _call_within(uri, {"": folder.check_writable}, timeout)[""]
    except CqrsError as error:
        yield warn("checkpoints", error.message, f"{error.hint}; until then no checkpoint is written or used")
        return
    if exists:
        yield ok("checkpoints", f"{folder.uri} responds and is writable")
    else:
        hint = "the first checkpoint creates it; all machines must see the same folder"
        yield warn("checkpoints", f"{folder.uri} does not exist yet", hint)


def check_latest_checkpoints(
    name: str,
    uri: str,
    folder: str,
    interval: timedelta,
    identities: Sequence[Identity],
    decided_offsets: Mapping[int, int],
    has_newer_outcomes: Callable[[int, Manifest], bool],
) -> Iterator[Check]:
    """Check the newest checkpoint of each partition of the aggregate `name`.

    A warning reports a checkpoint that is missing, that no owner could start from, or that is older than twice
    `interval` although commands were decided since.

    `folder`: the aggregate's folder in the store. `decided_offsets`: partition → offset. `has_newer_outcomes` returns
    whether a partition has outcomes after a checkpoint: an offset lag alone may be due to transaction markers.
    """
    notes: list[str] = []
    try:
        newest_manifests = _read_latest(uri, folder, identities, notes.append)
    except CqrsError as error:
        yield warn("checkpoints", f"{name}: {error.message}", error.hint)
        return
    checkpoints = [
        PartitionCheckpoint(
            identity, decided_offsets.get(identity.partition, 0), newest_manifests[identity.partition]
        )
        for identity in identities
    ]
    max_age = 2 * interval.total_seconds()
    deficient_checkpoints = [
        checkpoint
        for checkpoint in checkpoints
        if checkpoint.is_missing
        or checkpoint.is_unusable
        or (
            checkpoint.newest
            and checkpoint.offset_lag
            and checkpoint.age > max_age
            and has_newer_outcomes(checkpoint.identity.partition, checkpoint.newest)
        )
    ]
    for note in notes:
        yield warn(
            "checkpoints", f"{name}: {note}", "owners skip this checkpoint; the next checkpoints replace it"
        )
    if deficient_checkpoints:
        yield warn(
            "checkpoints",
            f"{name}: {_list_partitions(deficient_checkpoints)}",
            f"cqrs run writes a checkpoint every {show_duration(interval)} while it decides; its messages contain the "
            "reason if it fails",
        )
    elif any(checkpoint.newest for checkpoint in checkpoints):
        yield ok(
            "checkpoints",
            f"{name}: {_list_partitions([checkpoint for checkpoint in checkpoints if checkpoint.newest])}",
        )
    else:
        yield ok("checkpoints", f"{name}: no checkpoint yet, because no command was decided")


def _read_latest(
    uri: str, folder: str, identities: Sequence[Identity], report: Callable[[str], None]
) -> dict[int, Manifest | None]:
    """Return partition → the manifest of its newest checkpoint; None without a checkpoint."""
    store = open_folder(uri, Path("/"))
    calls = {}
    for identity in identities:
        subfolder = store.subfolder(identity.cluster_id, folder, str(identity.partition))
        calls[identity.partition] = partial(_read_manifests, Checkpoints(subfolder), report)
    return {
        partition: next(iter(manifests), None) for partition, manifests in _call_within(uri, calls).items()
    }


def _read_manifests(checkpoints: Checkpoints, report: Callable[[str], None]) -> list[Manifest]:
    with observing(message_listener(report)):
        return checkpoints.manifests()


def _list_partitions(checkpoints: list[PartitionCheckpoint]) -> str:
    listed = sorted(checkpoints, key=lambda checkpoint: -checkpoint.offset_lag)[:_MAX_NAMED]
    more_text = f", and {len(checkpoints) - len(listed)} more" if len(checkpoints) > len(listed) else ""
    return ", ".join(map(str, listed)) + more_text


def _call_within(
    uri: str, calls: Mapping[_Key, Callable[[], _Result]], timeout: float = STORE_TIMEOUT
) -> dict[_Key, _Result]:
    """Return the results of all calls; raises the first error, or `UnavailableError` after `timeout` seconds."""
    results: dict[_Key, _Result] = {}
    for name, result in TransferPool(_CONCURRENCY).call(calls, timeout).items():
        if isinstance(result, Exception):
            raise result
        results[name] = result
    if len(results) < len(calls):
        address = uri.partition("?")[0]
        raise UnavailableError(
            f"{address} did not respond for {timeout:.0f} s",
            "check that the store runs and that its address is right",
        )
    return results
