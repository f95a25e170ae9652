"""The loop of a subscription: reads the events of one partition for its sink."""

from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.event_tail import Tail
from cqrs_cli.ownership.loop import Loop, Sink


class SubscriptionLoop(Loop):
    """The loop of one subscription. Subclasses implement `process_batch`, which passes results to the sink."""

    def __init__(self, session: Sink, tail: Tail, position: int, end_offset: int | None) -> None:
        """`tail` reads the events from `position` on."""
        super().__init__(session, position, end_offset)
        self.tail = tail
        self.polled_until = position  # offset after the last event that was polled

    def poll(self) -> list[Record]:
        limit = self.session.limit
        if not self.remaining:
            self.remaining, self.polled_until = self.tail.poll(limit)
        return self.remaining[:limit]

    def run_idle_work(self) -> None:
        """Skip offsets without an event: transaction markers and aborted records."""
        if not self.remaining:
            self.position = max(self.position, self.polled_until)
