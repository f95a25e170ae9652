"""The payloads of historic commands: those that history decided with, and those that it could not have."""

from collections.abc import Iterator

from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.messages.payload_reference import PayloadReference
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.payloads.address import PayloadStoreAddress, PayloadUnavailableError
from cqrs_cli.payloads.batch import command_reference, fetch_payloads, may_refer
from cqrs_cli.proof.whatif.decided import DecidedCommand

_UNAVAILABLE = Reason.PAYLOAD_UNAVAILABLE.name


class HistoricPayloads:
    """The payload of the command under way is in `known`, or why it cannot be had."""

    def __init__(self, place: PayloadStoreAddress | None, topic: str, partition: int) -> None:
        self._place, self._topic, self._partition = place, topic, partition
        self._fetched: dict[PayloadReference, bytes | str] = {}
        self.known: dict[PayloadReference, bytes | str] = {}

    def parts(self, some: list[DecidedCommand]) -> Iterator[list[DecidedCommand]]:
        """The commands in parts whose payloads memory should hold; each has been fetched when it comes."""
        while some:
            fetched = fetch_payloads(self._place, self._topic, [each.record for each in some])
            self._fetched = dict(fetched.payloads)
            count = len(fetched.records)
            yield some[:count]
            some = some[count:]

    def present(self, each: DecidedCommand) -> None:
        """Make the payload of this command known, unless history could not have it."""
        self.known.clear()
        reference = command_reference(each.record) if may_refer(each.record) else None
        if reference is not None and each.outcome.data.reason != _UNAVAILABLE:
            self.known[reference] = self._fetched.get(reference, "payload_store is not set")

    def check(self, each: DecidedCommand, would: OutcomeEnvelope) -> None:
        """Raise `PayloadUnavailableError` for a command that was decided with a payload which is lost by now."""
        if would.data.reason == _UNAVAILABLE != each.outcome.data.reason:
            raise PayloadUnavailableError(
                f"{self._topic}:{self._partition}@{each.record.offset}: {would.data.message}",
                "restore it in payload_store; cqrs doctor looks at the store",
            )
