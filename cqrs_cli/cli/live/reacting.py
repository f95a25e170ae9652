"""Looks at the partitions that processes hear, again and again, over the same connections."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from confluent_kafka import Consumer

from cqrs_cli.cli.live.model import PartitionLook, Where
from cqrs_cli.following.processes.explain import explain_trial
from cqrs_cli.following.processes.plan import subscription_place
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import committed
from cqrs_cli.kafka.topics.process_topics import ProcessUse
from cqrs_cli.ownership.claim import TERMINAL, Claim, parse_claim
from cqrs_cli.telemetry.blocked import blocked_by


class ProcessLooker:
    """Looks at processes, from one thread. Their topics of events must exist."""

    def __init__(self, connection: Connection, processes: Sequence[ProcessUse], state_dir: Path) -> None:
        self._connection, self._state_dir = connection, state_dir
        self._heard = [
            (use, topic, readers.partitions(connection, topic)) for use in processes for topic in use.sources
        ]
        self._open: ExitStack | None = None
        self._groups: dict[str, Consumer] = {}

    def _connected(self) -> dict[str, Consumer]:
        if self._open is None:
            self._open = ExitStack()
            for name in {use.topics.group for use, *_ in self._heard}:
                group = clients.consumer(self._connection, group=name, isolation="read_uncommitted")
                self._groups[name] = self._open.enter_context(closing(group))
        return self._groups

    def close(self) -> None:
        """Give the connections back; another look makes new ones."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def look(self) -> dict[Where, PartitionLook]:
        """All partitions now, by process and topic; raises `KafkaException`."""
        seen: dict[Where, PartitionLook] = {}
        for use, topic, partitions in self._heard:
            group = self._connected()[use.topics.group]
            name = f"{use.topics.process} < {topic.removeprefix(use.topics.prefix).removesuffix('.events')}"
            for number, place in committed(group, topic, range(partitions)).items():
                start, end = readers.watermarks(group, topic, number)
                claim = parse_claim(place.metadata)
                position = end if place.offset is None else max(start, place.offset)
                seen[name, number] = PartitionLook(
                    end,
                    position,
                    "" if claim is None else claim.run,
                    claim is not None and claim.attempt == TERMINAL,
                    notes=self._notes(use, topic, number, claim) if position < end else (),
                    reacts=True,
                )
        return seen

    def _notes(self, use: ProcessUse, topic: str, number: int, claim: Claim | None) -> tuple[str, ...]:
        """The things that keep a process from reacting: an event on trial, and what it waits for."""
        trial = None if claim is None else claim.trial
        why = blocked_by(subscription_place(self._state_dir, use.topics, topic, number))
        notes = "" if trial is None else explain_trial(trial), f"it waits: {why}" if why else ""
        return tuple(filter(None, notes))
