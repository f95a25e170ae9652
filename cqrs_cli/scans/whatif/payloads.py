"""The payloads of logged commands, and the payloads that were unavailable when the commands were decided."""

from collections.abc import Iterator

from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.messages.payload_reference import PayloadReference
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.payloads.address import PayloadStoreAddress, PayloadUnavailableError
from cqrs_cli.payloads.batch import command_reference, fetch_payloads, may_refer
from cqrs_cli.proof.whatif.decided import DecidedCommand

_UNAVAILABLE = Reason.PAYLOAD_UNAVAILABLE.name


class HistoricPayloads:
    """Downloads payloads. `known` holds the payload of the current command, or the reason why it is unavailable."""

    def __init__(self, place: PayloadStoreAddress | None, topic: str, partition: int) -> None:
        self._place, self._topic, self._partition = place, topic, partition
        self._fetched: dict[PayloadReference, bytes | str] = {}
        self.known: dict[PayloadReference, bytes | str] = {}

    def parts(self, some: list[DecidedCommand]) -> Iterator[list[DecidedCommand]]:
        """Yield the commands in parts whose payloads fit into memory, after downloading the payloads of each part."""
        while some:
            fetched = fetch_payloads(self._place, self._topic, [each.record for each in some])
            self._fetched = dict(fetched.payloads)
            count = len(fetched.records)
            yield some[:count]
            some = some[count:]

    def present(self, each: DecidedCommand) -> None:
        """Put the payload of this command into `known`, unless it was unavailable to the owner."""
        self.known.clear()
        reference = command_reference(each.record) if may_refer(each.record) else None
        if reference is not None and each.outcome.data.reason != _UNAVAILABLE:
            self.known[reference] = self._fetched.get(reference, "payload_store is not set")

    def check(self, each: DecidedCommand, would: OutcomeEnvelope) -> None:
        """Raise `PayloadUnavailableError` for a command that was decided with a payload that is lost now."""
        if would.data.reason == _UNAVAILABLE != each.outcome.data.reason:
            raise PayloadUnavailableError(
                f"{self._topic}:{self._partition}@{each.record.offset}: {would.data.message}",
                "restore it in payload_store; cqrs doctor looks at the store",
            )
