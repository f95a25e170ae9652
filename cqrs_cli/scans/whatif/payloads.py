"""The payloads of logged commands for a simulation, as they were available when the commands were decided."""

from collections.abc import Iterator

from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.messages.payload_reference import PayloadReference
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.errors import PayloadUnavailableError
from cqrs_cli.payloads.batch import command_may_have_payload, command_reference
from cqrs_cli.proof.whatif.decided import DecidedCommand

_UNAVAILABLE = Reason.PAYLOAD_UNAVAILABLE.name


class HistoricPayloads:
    """Downloads payloads. `current_payloads`: the payload of the command that is decided, or why it is unavailable."""

    def __init__(self, codec: RecordCodec, topic: str, partition: int) -> None:
        self._codec, self._topic, self._partition = codec, topic, partition
        self._downloaded: dict[PayloadReference, bytes | str] = {}
        self.current_payloads: dict[PayloadReference, bytes | str] = {}

    def in_memory_parts(self, commands: list[DecidedCommand]) -> Iterator[list[DecidedCommand]]:
        """Yield the commands in parts whose payloads fit into memory. A part's payloads are downloaded before."""
        while commands:
            fetched = self._codec.fetch_payloads(self._topic, [command.record for command in commands])
            self._downloaded = dict(fetched.payloads)
            count = len(fetched.records)
            yield commands[:count]
            commands = commands[count:]

    def load_current(self, command: DecidedCommand) -> None:
        """Set `current_payloads` to the payload of this command. If the payload was unavailable when the owner decided
        the command, `current_payloads` is empty.
        """
        self.current_payloads.clear()
        reference = command_reference(command.record) if command_may_have_payload(command.record) else None
        if reference is not None and command.outcome.data.reason != _UNAVAILABLE:
            self.current_payloads[reference] = self._downloaded.get(reference, "payload_store is not set")

    def check_lost_payload(self, command: DecidedCommand, simulated: OutcomeEnvelope) -> None:
        """Raise `PayloadUnavailableError` if the owner had the command's payload, but the store no longer has it."""
        if simulated.data.reason == _UNAVAILABLE != command.outcome.data.reason:
            raise PayloadUnavailableError(
                f"{self._topic}:{self._partition}@{command.record.offset}: {simulated.data.message}",
                "restore the payload in payload_store; cqrs doctor checks the store",
            )
