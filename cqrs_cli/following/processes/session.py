"""The Kafka clients of a process manager's owner, and the claim in each of its commits."""

from msgspec.structs import replace

from cqrs_cli.codec.record_codec import AS_STORED
from cqrs_cli.following.processes.composer import ComposedRecord, upload_payloads
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.following.processes.position import ProcessPosition, position_key
from cqrs_cli.following.processes.positions import POSITIONS_PARTITION, read_positions
from cqrs_cli.following.processes.writer import ReactionWriter
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.ownership.claim import Claim, judge
from cqrs_cli.ownership.session import Session


class ReactSession(Session[ReactionWriter]):
    """The session of one owner. Its position is a record in the positions topic, and the group's committed offset."""

    def __init__(
        self, plan: ProcessPlan, subscription: Subscription, own_claim: Claim, batch_limit: int
    ) -> None:
        self.plan, self.subscription = plan, subscription
        self.topics = plan.topics(subscription)
        self.position: ProcessPosition | None = None  # the last committed position
        self.child_positions: dict[EventPartition, ProcessPosition] = {}  # the next commit writes these, too
        self.codec = AS_STORED  # decodes events; the loop replaces it by a decrypting codec
        source, timing = subscription.source, plan.timing
        writer = ReactionWriter(plan.connection, self.topics, source, plan.request_bytes, timing)
        super().__init__(
            plan.connection, plan.claim_slot(subscription), writer, own_claim, timing, batch_limit
        )

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.codec.close()

    def logs(self) -> list[tuple[str, int]]:
        source = self.subscription.source
        return [(source.topic, source.partition), (self.topics.positions_topic, POSITIONS_PARTITION)]

    def is_inconsistency_real(self, committed_claim: Claim | None) -> bool:
        """Return True if an inconsistency is real, and not the result of a successor's writes.

        Before this owner has committed its claim, the committed claim may belong to an earlier owner. So it is judged.
        """
        if not self.has_claimed:
            return not judge(self.own_claim, committed_claim).must_return
        return super().is_inconsistency_real(committed_claim)

    def commit_position(self, offset: int) -> None:
        assert self.position is not None
        self.commit([], replace(self.position, offset=offset, claim=self.own_claim, stopped=None, error=None))

    def commit(self, commands: list[ComposedRecord], position: ProcessPosition) -> None:
        """Commit commands and a position; raises `KafkaException`, `BatchRefusedError`.

        The payloads of the commands are uploaded first; after a `PayloadUnavailableError` nothing is committed.
        """
        upload_payloads(self.plan.connection.payload_codec(), commands)
        self.writer.commit(commands, position, self.consumer, self.child_positions)
        self.child_positions = {}
        self.position, self.offset, self.has_claimed = position, position.offset, True

    def position_after_fence(self) -> tuple[int, Claim] | None:
        positions = read_positions(self.plan.connection, self.topics)
        self.position = positions.get(position_key(self.subscription.source))
        return None if self.position is None else (self.position.offset, self.position.claim)

    def replace_claim(self, offset: int, claim: Claim) -> None:
        assert self.position is not None
        self.commit([], replace(self.position, claim=claim))
