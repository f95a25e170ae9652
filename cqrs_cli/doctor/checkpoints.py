"""Checks of the checkpoints: whether their store works, and how old the newest checkpoints are.

Without checkpoints a machine that has no shards folds the whole log, and then decides: a finding here is a warning.
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
from cqrs_cli.payloads.transfer_pool import TransferPool
from cqrs_cli.settings.durations import show_duration
from cqrs_cli.state.checkpoint.checkpoints import Checkpoints
from cqrs_cli.state.checkpoint.manifest import Manifest
from cqrs_cli.state.identity import Identity
from cqrs_cli.storage.folder import open_folder

#: Timeout in seconds for an answer of the store.
STORE_PATIENCE = 30.0

#: The number of concurrent requests to the store.
_AT_ONCE = 8

#: The number of partitions that a finding names, those with the largest lag first.
_NAMED = 8

_K = TypeVar("_K")
_T = TypeVar("_T")


class PartitionCheckpoint(NamedTuple):
    """The newest checkpoint of a partition, and the offset up to which its commands are decided."""

    identity: Identity  # of a shard that would be created now
    decided: int
    newest: Manifest | None

    @property
    def behind(self) -> int:
        """The number of offsets that were decided since the checkpoint."""
        return max(0, self.decided - (0 if self.newest is None else self.newest.positions.commands))

    @property
    def age(self) -> float:
        """Seconds since the checkpoint was written; 0 if this machine's clock is slow."""
        return 0.0 if self.newest is None else max(0.0, time.time() - self.newest.written / 1000)

    @property
    def is_missing(self) -> bool:
        """True if there is no checkpoint although commands were decided."""
        return self.newest is None and self.decided > 0

    @property
    def is_of_another(self) -> bool:
        """True if no current owner would start from the checkpoint."""
        return self.newest is not None and self.newest.identity != self.identity

    def __str__(self) -> str:
        name = f"partition {self.identity.partition}"
        if self.newest is None:
            return f"{name} has none"
        other = ", of other topics, code or window" if self.is_of_another else ""
        return f"{name} ({rough_time(self.age)} old, {counted(self.behind, 'offset')} behind{other})"


def check_checkpoint_store(uri: str, patience: float = STORE_PATIENCE) -> Iterator[Check]:
    """Check that the store answers and accepts a small file, which is removed at once."""
    try:
        folder = open_folder(uri, Path("/"))
        there = _within_time(uri, {"": folder.try_out}, patience)[""]
    except CqrsError as error:
        yield warn("checkpoints", error.message, f"{error.hint}; until then none is written, nor used")
        return
    if there:
        yield ok("checkpoints", f"{folder.uri} answers and can be written")
    else:
        hint = "the first checkpoint makes it; all machines must see the same one"
        yield warn("checkpoints", f"{folder.uri} does not exist yet", hint)


def check_newest(
    name: str,
    uri: str,
    folder: str,
    every: timedelta,
    identities: Sequence[Identity],
    decided: Mapping[int, int],
    has_news: Callable[[int, Manifest], bool],
) -> Iterator[Check]:
    """Check the newest checkpoint of each partition of the aggregate `name`. A warning reports checkpoints that are
    missing, that no owner could start from, or that are older than twice `every` with commands decided since.

    `folder`: of the aggregate, in the store; `decided`: partition → offset; `has_news` returns whether a partition has
    outcomes after a checkpoint: transactions leave offsets that are no commands.
    """
    notes: list[str] = []
    try:
        newest = _newest(uri, folder, identities, notes.append)
    except CqrsError as error:
        yield warn("checkpoints", f"{name}: {error.message}", error.hint)
        return
    found = [
        PartitionCheckpoint(one, decided.get(one.partition, 0), newest[one.partition]) for one in identities
    ]
    late = 2 * every.total_seconds()
    wrong = [
        one
        for one in found
        if one.is_missing
        or one.is_of_another
        or (one.newest and one.behind and one.age > late and has_news(one.identity.partition, one.newest))
    ]
    for note in notes:
        yield warn(
            "checkpoints", f"{name}: {note}", "owners pass it over; the next ones that are written replace it"
        )
    if wrong:
        yield warn(
            "checkpoints",
            f"{name}: {_named(wrong)}",
            f"cqrs run writes one every {show_duration(every)} while it decides; its notes say why it did not",
        )
    elif any(one.newest for one in found):
        yield ok("checkpoints", f"{name}: {_named([one for one in found if one.newest])}")
    else:
        yield ok("checkpoints", f"{name}: none yet, nothing was decided")


def _newest(
    uri: str, folder: str, identities: Sequence[Identity], note: Callable[[str], None]
) -> dict[int, Manifest | None]:
    store = open_folder(uri, Path("/"))
    looks = {
        one.partition: partial(
            Checkpoints(store.within(one.cluster_id, folder, str(one.partition))).manifests, note
        )
        for one in identities
    }
    return {number: next(iter(found), None) for number, found in _within_time(uri, looks).items()}


def _named(found: list[PartitionCheckpoint]) -> str:
    first = sorted(found, key=lambda one: -one.behind)[:_NAMED]
    more = f", and {len(found) - len(first)} more" if len(found) > len(first) else ""
    return ", ".join(map(str, first)) + more


def _within_time(
    uri: str, calls: Mapping[_K, Callable[[], _T]], patience: float = STORE_PATIENCE
) -> dict[_K, _T]:
    """Return the answers of all calls; raises the first error, and `UnavailableError` if the store does not answer."""
    answers: dict[_K, _T] = {}
    for name, result in TransferPool(_AT_ONCE).call(calls, patience).items():
        if isinstance(result, Exception):
            raise result
        answers[name] = result
    if len(answers) < len(calls):
        where = uri.partition("?")[0]
        raise UnavailableError(
            f"{where} has not answered for {patience:.0f} s", "is the store up, and its address right?"
        )
    return answers
