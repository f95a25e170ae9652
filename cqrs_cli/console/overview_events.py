"""Encodes the overview once for all its streams: in full, and as the changes since the poll before."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from cqrs_cli.console.overview import overview_document, partition_details
from cqrs_cli.console.sampler import Sample, StatusSampler
from cqrs_cli.status.document import status_document
from cqrs_cli.status.partition import PartitionStatus

#: Fields of a status that its row does not show.
_HIDDEN_FIELDS = {"polled_at", "oldest_age_ms", "reasons"}

#: The fields that a row shows. The first fields name the partition.
_row_fields = attrgetter(*(name for name in PartitionStatus.__struct_fields__ if name not in _HIDDEN_FIELDS))
_NAMING_FIELDS = 5

#: Members that each event has.
_ALWAYS_SENT = {"time", "time_ms", "point", "status"}


class _Row(NamedTuple):
    """A partition in the overview."""

    fields: tuple[Any, ...]
    document: bytes


class OverviewEncoder:
    """Encodes the newest poll of a sampler.

    An event `overview` has the whole document. An event `changes` has only the members and the partitions that have
    changed since the poll before. A client that asks for `changes` gets it if its last event belonged to the poll
    before, and if the partitions are the same. With 1,000 partitions the whole document takes 2 % of a core at one poll
    a second.
    """

    def __init__(self, sampler: StatusSampler, store: str, with_flags: Callable[[str], str]) -> None:
        self._sampler, self._store, self._with_flags = sampler, store, with_flags
        self._sample: Sample | None = None  # the newest encoded poll
        self._base: Sample | None = None  # the poll before `_changes`; None: only the whole document is valid
        self._rows: list[_Row] = []
        self._members: dict[str, bytes] = {}  # of the document; its status has only the changed partitions
        self._changes = ""
        self._overview: bytes | None = None

    def document(self) -> bytes:
        """Return the whole overview as JSON."""
        sample = self._encode_newest()
        if self._overview is None:
            status = self._status(sample, range(len(self._rows)))
            members = self._members | {"status": msgspec.json.encode(status)}
            self._overview = _object(members)
        return self._overview

    def next_event(self, sent: Sample | None) -> tuple[Sample, str]:
        """Return the newest poll, and its event for a client whose last event belonged to the poll `sent`; None: it
        needs the whole document.
        """
        sample = self._encode_newest()
        if sent is not None and sent is self._base:
            return sample, self._changes
        return sample, f"event: overview\ndata: {self.document().decode()}\n\n"

    def _encode_newest(self) -> Sample:
        sample = self._sampler.sample
        if sample is not self._sample:
            started_at = time.thread_time()
            self._encode(sample)
            self._sampler.encoding_cost = time.thread_time() - started_at
        return sample

    def _encode(self, sample: Sample) -> None:
        changed = self._update_rows(() if sample.snapshot is None else sample.snapshot.statuses)
        self._base, self._sample, self._overview = None if changed is None else self._sample, sample, None
        status = self._status(sample, changed or ())
        document = overview_document(sample, self._sampler.reasons(), self._with_flags, status)
        old_members = self._members
        self._members = {name: msgspec.json.encode(value) for name, value in document.items()}
        changes = {
            name: value
            for name, value in self._members.items()
            if name in _ALWAYS_SENT or value != old_members.get(name)
        }
        self._changes = f"event: changes\ndata: {_object(changes).decode()}\n\n"

    def _update_rows(self, statuses: tuple[PartitionStatus, ...]) -> set[int] | None:
        """Encode the rows that have changed, and return their indexes; None if the partitions are not the same."""
        old_rows, rows, changed = self._rows, list[_Row](), set[int]()
        are_same = len(statuses) == len(old_rows)
        for index, status in enumerate(statuses):
            fields = _row_fields(status)
            old = old_rows[index] if index < len(old_rows) else None
            # The remark about a slow command has its age.
            if old is not None and old.fields == fields and status.slow_command is None:
                rows.append(old)
                continue
            row = _Row(fields, msgspec.json.encode(row_document(status)))
            rows.append(row)
            are_same = are_same and old is not None and old.fields[:_NAMING_FIELDS] == fields[:_NAMING_FIELDS]
            if old is None or old.document != row.document:
                changed.add(index)
        self._rows = rows
        return changed if are_same else None

    def _status(self, sample: Sample, indexes: Collection[int]) -> dict[str, Any] | None:
        """Return the document of a poll's snapshot with these rows."""
        if sample.snapshot is None:
            return None
        statuses = sample.snapshot.statuses
        documents = {id(statuses[index]): Raw(self._rows[index].document) for index in indexes}

        def partitions(group: Iterable[PartitionStatus]) -> list[Any]:
            return [documents[id(status)] for status in group if id(status) in documents] if documents else []

        return status_document(sample.snapshot, self._store, partitions=partitions)


def row_document(status: PartitionStatus) -> dict[str, Any]:
    """Return a partition in the overview as JSON: without the seconds of silence, which change with each poll."""
    document = partition_details(status)
    if isinstance(owner := document["owner"], dict):
        del owner["silent_seconds"]
    return document


def _object(members: Mapping[str, bytes]) -> bytes:
    return msgspec.json.encode({name: Raw(value) for name, value in members.items()})
