"""Reads dead letters for `verify`: the bytes of a failed command, and the reason in the last headers."""

from collections.abc import Iterable
from zlib import crc32

import msgspec

from cqrs_cli.core.messages.drop_record import is_drop_record
from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.index_entries import OFFSET_LIMIT, DeadLetterEntry, IndexWriter, key_of, text_checksum
from cqrs_cli.proof.scope import Scope

REASON_HEADERS = ["cqrs.reason", "cqrs.message", "cqrs.topic", "cqrs.partition", "cqrs.offset"]


class DeadLetters:
    """Reads the dead letters of a partition, in the order of the log."""

    def __init__(
        self, scope: Scope, writer: IndexWriter, outcome_writer: IndexWriter, findings: Findings
    ) -> None:
        self.count = 0
        self._scope = scope
        self._writer = writer
        self._outcome_writer = outcome_writer
        self._findings = findings

    def read(self, records: Iterable[Record]) -> None:
        """Add the next records to the index."""
        loss = self._scope.loss
        for record in records:
            if is_drop_record(record):
                continue
            self.count += 1
            try:
                command_offset, entry = self._entry_of(record)
            except ValueError as error:
                self._findings.add_violation("dead-letters", record.offset, f"is not a dead letter: {error}")
                continue
            is_after_loss = (
                self._outcome_writer.topic_recreated
                and loss is not None
                and command_offset >= loss.restart_command
            )
            self._writer.add_entry(command_offset, record.offset, entry, after_loss=is_after_loss)

    def _entry_of(self, record: Record) -> tuple[int, DeadLetterEntry]:
        """Return the offset of the failed command and the index entry; raise `ValueError` if the headers lack the
        offset.
        """
        headers = record.headers or []
        original_headers, reason_headers = headers[: -len(REASON_HEADERS)], headers[-len(REASON_HEADERS) :]
        if [name for name, _ in reason_headers] != REASON_HEADERS:
            raise ValueError(f"its headers do not end with {', '.join(REASON_HEADERS)}")
        reason, message, topic, partition, offset = [
            (content or b"").decode() for _, content in reason_headers
        ]
        if (topic, partition) != (self._scope.commands_topic, str(self._scope.partition)):
            raise ValueError(f"it refers to {topic} partition {partition}")
        if not (offset.isascii() and offset.isdigit() and int(offset) < OFFSET_LIMIT):
            raise ValueError(f"it refers to offset {offset!r}")
        crcs = checksums(record.value, original_headers)
        entry = DeadLetterEntry(
            record.offset, record.timestamp, key_of(record), reason, *crcs, text_checksum(message)
        )
        return int(offset), entry


def checksums(value: bytes | None, headers: Headers | None) -> tuple[int | None, int]:
    """Return the CRC-32 of a command's value and the CRC-32 of its headers. An empty value counts as None."""
    return crc32(value) if value else None, crc32(msgspec.msgpack.encode(headers or []))
