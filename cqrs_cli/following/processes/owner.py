"""One owner of one partition of events, for one process: steps 1 and 2, and what it holds for step 3.

An owner is never repaired: any error ends it, its clients are dropped, and the supervisor begins with another one.
"""

from confluent_kafka import Consumer
from msgspec.structs import replace

from cqrs_cli import failpoints
from cqrs_cli.following.processes.compose import ComposedCommand, store_payloads
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.following.processes.position import ProcessPosition, position_key, resume
from cqrs_cli.following.processes.positions import committed_of, recorded_positions, source_state
from cqrs_cli.following.processes.writer import CommandWriter
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, bulk_consumer, consumer
from cqrs_cli.kafka.event_tail import PartitionTail, Tell
from cqrs_cli.ownership.claim import Claim, Judgement, judge, parse_claim, suspect
from cqrs_cli.ownership.signals import ClaimLost, Superseded


class ProcessOwner:
    """Use as a context manager: the clients go with it."""

    def __init__(self, plan: ProcessPlan, subscription: Subscription, mine: Claim) -> None:
        self.plan, self.subscription, self.mine = plan, subscription, mine
        self.topics = plan.topics(subscription)
        self.position: ProcessPosition | None = None  # as last committed
        self.useful = False  # whether anything has been reacted to
        group = self.topics.group
        self.reader: Consumer = bulk_consumer(plan.connection, group=group, fetch_wait_max_ms=500)
        self.watcher: Consumer = consumer(plan.connection, group=group, isolation="read_uncommitted")
        self.writer = CommandWriter(
            plan.connection, self.topics, subscription.source, plan.request_bytes, plan.timing
        )

    def __enter__(self) -> "ProcessOwner":
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()
        self.watcher.close()

    def fence(self) -> None:
        """1: fence the previous owner; its open transaction is settled."""
        failpoints.reached("fence.before")
        self.writer.fence()
        failpoints.reached("fence.after")

    def claim(self) -> int:
        """2: judge the recorded claim and position, and commit mine before anything is read. Where to go on.

        A new process has committed its start then: a crash later skips no event.
        """
        plan, subscription = self.plan, self.subscription
        positions = recorded_positions(plan.connection, self.topics)
        recorded = positions.get(position_key(subscription.source))
        self._judge(recorded.claim if recorded else None)
        state = source_state(plan, subscription, self.reader, positions)
        resumed = resume(
            state,
            beginning=plan.beginning,
            skip=plan.skips.get(subscription),
            accept=plan.losses.get(subscription),
        )
        before = recorded.claim if recorded else None
        mine = replace(self.mine, n=1 + max(self.mine.n, before.n if before else 0))
        self.mine = suspect(mine, before, plan.timing.batch_limit)
        failpoints.reached("claim.before")
        self.commit([], resumed.offset, ProcessPosition(resumed.offset, self.mine, *resumed[1:]))
        failpoints.reached("claim.after")
        return resumed.offset

    def tail(self, start: int, note: Tell) -> PartitionTail:
        """The events from an offset on; it closes with the owner."""
        # Without it this client, which has talked to the group only, finds the partition's leader a second later.
        self.reader.list_topics(self.subscription.source.topic, timeout=REQUEST_TIMEOUT)
        return PartitionTail(self.plan.connection, self.subscription.source, start, note, self.reader)

    def commit(
        self, commands: list[ComposedCommand], offset: int, position: ProcessPosition | None = None
    ) -> None:
        """Commit commands, and a position with my claim; raises `KafkaException`, `BatchRefusedError`.

        The commands' payloads are stored before; raises `PayloadUnavailableError`, and nothing is committed.
        """
        before = self.position
        if position is None:
            assert before is not None
            position = replace(before, offset=offset, claim=self.mine, stopped=None)
        store_payloads(self.plan.connection.payloads, commands)
        self.writer.commit(commands, position, self.reader)
        self.position = position

    def check_claim(self) -> None:
        """Read the claim while idle: an owner that commits nothing would never notice that it was fenced."""
        found = committed_of(self.watcher, self.subscription)
        if found.offset is None:  # expired, or gone with its topic: the next owner sees what the record says
            raise ClaimLost("the group's offset is gone")
        if self._judge(parse_claim(found.metadata)) is not Judgement.MINE:
            raise ClaimLost("an older run came back, or somebody moved the group's offset")

    def _judge(self, claim: Claim | None) -> Judgement:
        judgement = judge(self.mine, claim)
        if judgement.ends:
            raise Superseded(judgement, claim)
        return judgement
