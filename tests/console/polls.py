"""Invented polls of the console, and the events that follow them."""

import json
from typing import Any

from msgspec.structs import replace

from cqrs_cli.console.overview_events import OverviewEncoder
from cqrs_cli.console.sampler import Sample, point_of
from cqrs_cli.status.partition import PartitionStatus
from tests.support.statuses import status_snapshot


class Polls:
    """A sampler whose polls a test invents, and a client of their events."""

    def __init__(self) -> None:
        self.sample, self.encoding_cost = Sample(None, None, 1.0), 0.0
        self.encoder = OverviewEncoder(self, "lmdb", str)  # type: ignore[arg-type]
        self.sent: Sample | None = None
        self.clock = 60_000

    def reasons(self) -> dict[str, dict[str, int]]:
        return {}

    def poll(self, *statuses: PartitionStatus) -> None:
        self.clock += 1_000
        snapshot = status_snapshot(
            *(replace(status, polled_at=self.clock) for status in statuses), clock=self.clock
        )
        self.sample = Sample(snapshot, point_of(snapshot), 1.0)

    def read(self, *statuses: PartitionStatus) -> tuple[str, Any]:
        """Return the name and the data of the event after a poll."""
        self.poll(*statuses)
        self.sent, event = self.encoder.next_event(self.sent)
        name, data = event.strip().split("\n")
        return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))
