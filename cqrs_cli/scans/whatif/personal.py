"""Personal fields in a simulation. It needs no keyring, and decrypts no value of the log.

Commands are decided with the data that their senders sent. Logged events and states are redacted, and compared without
personal fields. An aggregate that had a data key in the log gets a random key, which only the simulation uses.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from cqrs_cli.codec.ciphertext import key_of_event
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, read_erased
from cqrs_cli.core.context import Decisions
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.messages.payload_reference import with_data, with_reference
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.data_keys import random_key
from cqrs_cli.core.personal.encrypted_data import decrypt_data, encrypt_data, has_encrypted_shape
from cqrs_cli.core.personal.encryption import STATE, DataKey, ValueLocation
from cqrs_cli.proof.whatif.decided import DecidedCommand


class ScratchEncryption(NamedTuple):
    """Encrypts states in temporary files, which others could read, with a random key that is only in memory."""

    aggregate: Aggregate
    key: DataKey

    def encrypt_state(self, subject: str, data: bytes) -> bytes:
        return encrypt_data(self.aggregate.state, data, self.key, self._location(subject))

    def decrypt_state(self, subject: str, data: bytes) -> bytes:
        return decrypt_data(self.aggregate.state, data, lambda _: self.key, self._location(subject))

    def _location(self, subject: str) -> ValueLocation:
        return ValueLocation(self.aggregate.name, subject, STATE, "")


class ScratchKey:
    """The random key that encrypts the stores of a simulation."""

    def __init__(self) -> None:
        self._key = random_key()

    def encryption_of(self, aggregate: Aggregate) -> ScratchEncryption | None:
        """Return the encryption of states; None for an aggregate without personal fields."""
        return ScratchEncryption(aggregate, self._key) if aggregate.has_personal_fields else None


@dataclass
class HistoricKeys:
    """The simulated data keys of a partition's aggregates, and its deferred commands with the data that was sent.

    A deferred command takes about 500 bytes of memory.
    """

    aggregate: Aggregate
    active_keys: dict[str, DataKey] = field(default_factory=dict)  # aggregate id → key
    # Position of a deferred command, `PARTITION/OFFSET` → the command.
    _sent_envelopes: dict[str, CommandEnvelope] = field(default_factory=dict)

    def fold(self, events: Iterable[EventEnvelope]) -> None:
        """Add the keys of aggregates that got a data key in these logged events, and delete erased keys."""
        for event in events if self.aggregate.has_personal_fields else ():
            try:
                key = key_of_event(event)
            except ValueError:  # `cqrs verify` reports this event
                continue
            if key is not None and key.is_erasure:
                self.active_keys.pop(event.subject, None)
            elif key is not None and event.subject not in self.active_keys:
                self.active_keys[event.subject] = random_key()

    def add_decided(self, decisions: Decisions) -> None:
        """Add the data keys that the simulation created in a batch, and delete the keys that it erased."""
        for subject, key in decisions.data_keys.items():
            if key is None:
                self.active_keys.pop(subject, None)
            else:
                self.active_keys[subject] = key

    def use_logged_key_ids(self, decisions: Decisions, events: Iterable[EventEnvelope]) -> None:
        """If these logged events erase an aggregate, give its simulated key the id of the logged key, because the
        `Erase` command may contain this id.
        """
        for event in events:
            if event.type == ERASED and self.aggregate.has_personal_fields:
                keys = decisions.data_keys if event.subject in decisions.data_keys else self.active_keys
                key, logged_kid = keys.get(event.subject), read_erased(event.data).key
                if key is not None:
                    keys[event.subject] = DataKey(logged_kid, key.secret)

    def restore_sent_data(self, command: DecidedCommand) -> DecidedCommand:
        """Return a resubmitted command with the data that its sender sent; owners resubmit commands encrypted.

        A command that was deferred before the simulated range gets redacted values. Commands with the reason ERASED,
        and commands that were not resubmitted, are not changed.
        """
        verdict = command.outcome.data
        if not self.aggregate.has_personal_fields or verdict.reason == Reason.ERASED.name:
            return command
        try:
            envelope = read_command(command.record)
        except CheckFailed:
            return command
        if isinstance(verdict.deferredfrom, str):
            sent_envelope = self._sent_envelopes.get(verdict.deferredfrom)
            if verdict.status != "deferred":
                self._sent_envelopes.pop(verdict.deferredfrom, None)
            return replace(command, record=self._with_sent_data(command.record, envelope, sent_envelope))
        if verdict.status == "deferred" and verdict.reason != Reason.MOVED.name:
            self._sent_envelopes[f"{verdict.partition}/{verdict.offset}"] = envelope
        return command

    def _with_sent_data(
        self, record: Record, envelope: CommandEnvelope, sent_envelope: CommandEnvelope | None
    ) -> Record:
        cls, data = self.aggregate.commands.get(envelope.type), bytes(envelope.data)
        if cls is None or record.value is None:
            return record
        if sent_envelope is not None and (reference := sent_envelope.reference()) is not None:
            folder = f"{sent_envelope.dataref}".rpartition("/")[0]
            return replace(record, value=with_reference(record.value, folder, reference))
        if not has_encrypted_shape(data):
            return record
        plain = (
            self.aggregate.personal.redact_data(cls, data)
            if sent_envelope is None
            else bytes(sent_envelope.data)
        )
        return replace(record, value=with_data(record.value, plain))
