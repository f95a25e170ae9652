"""Simulates an owner: decides logged commands again with the changed code (`whatif --with`).

Everything else is as it was when the commands were decided: clock, payloads and poison reasons.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.context import BatchContext, DecisionInterrupted
from cqrs_cli.core.decide import Batch
from cqrs_cli.core.decision_rules import DecisionRules
from cqrs_cli.core.deferral.entry import Deferral, entry_key_of
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.payload_reference import with_payload_data
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.core.stored import DedupEntry
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import CqrsError
from cqrs_cli.ownership.timing import APPLY_EVERY
from cqrs_cli.payloads.batch import command_may_have_payload
from cqrs_cli.proof.whatif.decided import DecidedCommand
from cqrs_cli.proof.whatif.difference import (
    HistoryDifference,
    compare_decisions,
    owner_clock,
    poison_reason_of,
    was_given_up,
)
from cqrs_cli.scans.whatif.payloads import HistoricPayloads
from cqrs_cli.scans.whatif.personal import HistoricKeys


@dataclass(slots=True)
class _Clock:
    """The simulated clock. It shows the time at which the owner decided the command."""

    now: int = 0  # ms since 1970; 0 if the log does not contain the time


@dataclass
class SimulatedOwner:
    """Decides the commands of one partition with the changed code, and updates `states` with the results."""

    rules: DecisionRules  # the owners' current rules
    code: Aggregate  # the changed code
    states: StateCache  # states and command ids as decided by the changed code
    payloads: HistoricPayloads
    keys: HistoricKeys
    shares_stores: bool  # see `PartitionSimulation`
    decided_commands: int = 0
    #: Number of commands that owners failed without calling `decide`, such as poison records. The simulation fails
    #: them, too.
    skipped_commands: int = 0
    _clock: _Clock = field(default_factory=_Clock)

    @property
    def stored_partition(self) -> int | None:
        """The partition to store in each dedup entry; None if the stores belong to this partition only."""
        return self.rules.partition if self.shares_stores else None

    def decide(self, commands: list[DecidedCommand]) -> list[HistoryDifference]:
        """Decide a batch of commands, and return the differences from the log, in order. `payloads` must have the
        downloaded payloads.
        """
        differences: list[HistoryDifference] = []
        with self.states.reading():
            batch = Batch(self.code, self._context(commands))
            for piece in self._pieces(commands):
                differences += self._decide_piece(batch, piece)
        self.keys.add_decided(batch.decisions)
        self.decided_commands += len(commands)
        if self.shares_stores:
            batch.decisions.dedup_entries = {
                key: replace(entry, partition=self.stored_partition)
                for key, entry in batch.decisions.dedup_entries.items()
            }
        self.states.stage(batch.decisions, commands[-1].record.offset + 1, None, None)
        if self.states.pending_count >= APPLY_EVERY or self.states.is_full():
            self.states.flush()
        return differences

    def _pieces(self, commands: list[DecidedCommand]) -> Iterator[list[DecidedCommand]]:
        """Yield the commands in pieces. A command that needs its own clock, payload or data key is alone in a piece."""
        piece: list[DecidedCommand] = []
        for command in commands:
            if not self._is_ordinary(command):
                yield from (piece, [command]) if piece else ([command],)
                piece = []
            else:
                piece.append(command)
        if piece:
            yield piece

    def _is_ordinary(self, command: DecidedCommand) -> bool:
        """True if the command needs no clock, has its data in the record, and erased no key."""
        return (
            owner_clock(command.outcome) == 0
            and not command_may_have_payload(command.record)
            and not (
                self.keys.aggregate.has_personal_fields
                and any(event.message.type == ERASED for event in command.events)
            )
        )

    def _decide_piece(self, batch: Batch, piece: list[DecidedCommand]) -> Iterator[HistoryDifference]:
        first = piece[0]
        self._clock.now = owner_clock(first.outcome)
        self.payloads.load_current(first)
        self.keys.use_logged_key_ids(batch.decisions, [event.message for event in first.events])
        try:
            decisions = batch.decide_piece([command.record for command in piece])
        except DecisionInterrupted as error:
            raise CqrsError(
                f"{self.rules.topic} partition {self.rules.partition} offset {error.offset} cannot be decided "
                f"here: {error}",
                "the other code ran out of a resource, such as memory",
            ) from error
        event_values = [value for value, _, _ in decisions.events]
        if [value for value, _, _ in decisions.outcomes] == [command.outcome_value for command in piece] and (
            event_values == [event.record.value for command in piece for event in command.events]
        ):
            return  # equal bytes need no decoding
        start = 0
        for command, (value, _, _) in zip(piece, decisions.outcomes, strict=True):
            end = start + len(command.events)
            if value == command.outcome_value and event_values[start:end] == [
                event.record.value for event in command.events
            ]:
                start = end
                continue
            simulated = read_outcome(value)
            end = start + simulated.data.events
            simulated_events = [
                read_event(with_payload_data(value, decisions.payloads)) for value in event_values[start:end]
            ]
            start = end
            self.payloads.check_lost_payload(command, simulated)
            logged_events = [event.message for event in command.events]
            difference = compare_decisions(
                self.code, command.outcome, logged_events, simulated, simulated_events
            )
            if difference is not None:
                yield difference

    def _context(self, commands: list[DecidedCommand]) -> BatchContext:
        failed = [command for command in commands if command.outcome.data.reason]
        poison_reasons = {
            command.record.offset: reason
            for command in failed
            if (reason := poison_reason_of(command.outcome)) is not None
        }
        given_up = frozenset(command.record.offset for command in failed if was_given_up(command.outcome))
        self.skipped_commands += len(poison_reasons) + len(given_up)
        rules, cache = self.rules, self.states
        return rules.batch_context(
            cache.state,
            self._find_dedup_entry if self.shares_stores else cache.find_dedup_entry,
            lambda: self._clock.now,
            cache.positions.clock,
            rules.deferrals(cache.deferred, cache.has_deferred, self._resubmissions(commands)),
            self.payloads.current_payloads,
            given_up,
            poison_reasons,
            self.keys.active_keys.get,
            cache.greatest_id,
        )

    def _find_dedup_entry(self, subject: str, command_id: str) -> DedupEntry | None:
        """Return the first decision on a command id. Its partition is None, unless a parent partition decided."""
        entry = self.states.find_dedup_entry(subject, command_id)
        return (
            entry
            if entry is None or entry.partition != self.stored_partition
            else replace(entry, partition=None)
        )

    def _resubmissions(self, commands: list[DecidedCommand]) -> dict[int, Deferral]:
        """Return offset → deferred entry, for each of these commands that was resubmitted. A command that the changed
        code did not defer gets a new entry.
        """
        resubmitted: dict[int, Deferral] = {}
        for command in commands:
            verdict = command.outcome.data
            if not isinstance(verdict.deferredfrom, str) or not isinstance(verdict.fingerprint, int):
                continue
            outcome = command.outcome
            entry_key = entry_key_of(verdict.deferredfrom, self.rules.topic_id, verdict.partition)
            entry = self.states.deferred().find_entry(str(entry_key)) or Deferral(
                topic_id=entry_key.topic_id,
                offset=entry_key.offset,
                partition=entry_key.partition,
                subject=outcome.subject or "",
                id=outcome.causationid or "",
                fingerprint=verdict.fingerprint,
                version=0,
                timestamp=0,
                due=0,
                attempt=0,
                reason="",
                command=command.record.value or b"",
            )
            cancelled = verdict.reason == Reason.CANCELLED.name
            resubmitted[command.record.offset] = replace(
                entry, resubmitted_offset=command.record.offset, cancelled=cancelled
            )
        return resubmitted
