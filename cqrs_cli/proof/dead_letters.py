"""Reading dead letters: the bytes of what failed, and why in the last five headers."""

from collections.abc import Iterable
from zlib import crc32

import msgspec

from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import LIMIT, DeadLetterTrace, Traces, key_of

WHY = ["cqrs.reason", "cqrs.message", "cqrs.topic", "cqrs.partition", "cqrs.offset"]


class DeadLetters:
    """The dead letters of a partition, read in the order of the log."""

    def __init__(self, scope: Scope, traces: Traces, outcomes: Traces, findings: Findings) -> None:
        self.count = 0
        self._scope = scope
        self._traces = traces
        self._outcomes = outcomes
        self._findings = findings

    def read(self, records: Iterable[Record]) -> None:
        """Take in the next ones."""
        loss = self._scope.loss
        for record in records:
            self.count += 1
            try:
                command, letter = self._letter(record)
            except ValueError as error:
                self._findings.add("dead-letters", record.offset, f"is no dead letter: {error}")
                continue
            again = self._outcomes.began_again and loss is not None and command >= loss.at
            self._traces.keep(command, record.offset, letter, after_loss=again)

    def _letter(self, record: Record) -> tuple[int, DeadLetterTrace]:
        """The command that failed, and the trace; raises `ValueError` if the headers do not say."""
        headers = record.headers or []
        original, why = headers[: -len(WHY)], headers[-len(WHY) :]
        if [name for name, _ in why] != WHY:
            raise ValueError(f"its headers do not end with {', '.join(WHY)}")
        reason, _, topic, partition, offset = [(content or b"").decode() for _, content in why]
        if (topic, partition) != (self._scope.commands, str(self._scope.partition)):
            raise ValueError(f"it is of {topic} partition {partition}")
        if not (offset.isascii() and offset.isdigit() and int(offset) < LIMIT):
            raise ValueError(f"it is of offset {offset!r}")
        kept = checksums(record.value, original)
        return int(offset), DeadLetterTrace(record.offset, record.timestamp, key_of(record), reason, *kept)


def checksums(value: bytes | None, headers: Headers | None) -> tuple[int | None, int]:
    """What a dead letter keeps of its command, in two numbers; no bytes are as good as none."""
    return crc32(value) if value else None, crc32(msgspec.msgpack.encode(headers or []))
