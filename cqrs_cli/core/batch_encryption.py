"""Encrypts the personal fields of a batch's output, decrypts deferred commands, and erases keys."""

from collections.abc import Callable

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decision_in_progress import DecisionInProgress
from cqrs_cli.core.erasure import Erase, decide_erase
from cqrs_cli.core.messages.command import CommandEnvelope
from cqrs_cli.core.messages.payload_reference import payload_folder, reference_to, with_data, with_reference
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.personal.data_keys import BatchDataKeys, ErasedKeyError
from cqrs_cli.core.personal.encrypted_data import has_encrypted_shape


class BatchEncryption:
    """Encrypts and decrypts for one batch of an aggregate with personal fields; `BatchState` creates it."""

    def __init__(self, aggregate: Aggregate, context: BatchContext, decisions: Decisions) -> None:
        self._commands, self._context, self._decisions = aggregate.commands, context, decisions
        self._keys = BatchDataKeys(aggregate.name, context.data_key_of, context.new_data_key)
        decisions.data_keys = self._keys.changed_keys
        self._partition, self._classes_to_search = context.partition, aggregate.classes_to_search

    def encrypt_event(self, event: Event, data: bytes, subject: str, offset: int, index: int) -> bytes:
        """Return the encrypted data of event number `index` of the command at `offset`. The event is already folded, so
        its data match its class.

        Raises `ValueError` if a plain member has the shape of an encrypted value.
        """
        cls, location = type(event), f"{self._partition}/{offset}/{index}"
        return self._keys.encrypt(cls, data, subject, location, cls in self._classes_to_search)

    def decryptor_for(
        self, decision: DecisionInProgress, envelope: CommandEnvelope
    ) -> Callable[[bytes], bytes] | None:
        """Return the function that decrypts data for `read_data` (check 7); None for a reserved command.

        Only owners encrypt members, in commands that they resubmit. The function raises `CheckFailed` for an encrypted
        member from a client, and if the key was erased while the command was deferred.
        """
        cls = self._commands.get(envelope.type)
        if cls is None:
            return None

        def decrypt(data: bytes) -> bytes:
            if decision.deferral is None:
                if has_encrypted_shape(data):
                    raise CheckFailed(Reason.INVALID_PAYLOAD, "a member has the shape of an encrypted value")
                return data
            try:
                return self._keys.decrypt(cls, data, envelope.subject, command_location(envelope.id))
            except ErasedKeyError:
                raise CheckFailed(
                    Reason.ERASED, "its personal data were erased while it was deferred"
                ) from None

        return decrypt

    def encrypt_document(self, envelope: CommandEnvelope, document: bytes) -> bytes:
        """Return the document of a command to defer, with encrypted data.

        If the data are a payload, the document refers to a new payload with the encrypted data.

        Raises `CheckFailed` (TOO_LARGE) if the new payload is too large.
        """
        cls, reference = self._commands.get(envelope.type), envelope.reference()
        if cls is None:
            return document
        data = bytes(envelope.data) if reference is None else self._context.payloads[reference]
        assert isinstance(data, bytes)  # check 7 has used this payload
        encrypted = self._keys.encrypt(cls, data, envelope.subject, command_location(envelope.id))
        if encrypted is data:
            return document
        if reference is None:
            return with_data(document, encrypted)
        if len(encrypted) > (limit := self._context.max_payload):
            raise CheckFailed(
                Reason.TOO_LARGE,
                f"to be deferred, its payload would have {len(encrypted)} bytes: the limit is {limit}",
            )
        new_reference = reference_to(encrypted)
        self._decisions.payloads[new_reference] = encrypted
        return with_reference(document, payload_folder(self._context.topic), new_reference)

    def decide_erase(self, subject: str, command: Erase) -> tuple[Erased, ...]:
        """Return the events of an `Erase`."""
        key = self._keys.active_key(subject)
        return decide_erase(command, None if key is None else key.kid)

    def drop_key(self, subject: str) -> None:
        """Remove the data key of an aggregate whose `Erased` event is written."""
        self._keys.drop_key(subject)


def command_location(command_id: str) -> str:
    """Return the location to which the encryption of a deferred command is bound."""
    return f"command/{command_id}"
