"""Watches a run's processes. Progress comes with the claims beside the groups' offsets, which repeat the positions."""

import time
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.readers import MissingError, watermarks
from cqrs_cli.owner.claim import Claim, parse_claim
from cqrs_cli.owner.trials.trial import Trial
from cqrs_cli.processes.explain import explain_trial, topic_made_again
from cqrs_cli.processes.plan import Hearing, ProcessPlan, ProcessProgress
from cqrs_cli.processes.positions import committed_of

#: Seconds between two looks at the topics.
_TOPICS_EVERY = 10.0


class ProcessWatcher:
    """Reads how far the processes are, from their groups' offsets and the ends of the logs."""

    def __init__(self, plan: ProcessPlan) -> None:
        self._plan = plan
        self._clients: dict[str, Consumer] = {}
        self._submission = 0
        self._trials: dict[Hearing, Trial] = {}
        self._checked = self._begun = time.monotonic()
        self._last = ProcessProgress(time.monotonic(), {}, {})

    def begin(self, submission: int) -> None:
        """Watch this submission from now on: the claims of those before do not count."""
        self._submission = submission
        self._begun = time.monotonic()

    def suspicions(self) -> list[str]:
        """The events on which workers may be dying, as of the last look."""
        return [f"{hearing}: {explain_trial(trial)}" for hearing, trial in sorted(self._trials.items())]

    def has_moved(self, before: ProcessProgress) -> bool:
        """True if the present submission got further: also one that only claimed, for then each death counts."""
        now = self.look()
        return bool(now.claimed) or now.position > before.position

    def look(self) -> ProcessProgress:
        """The progress now; that of the last look if the broker does not answer."""
        positions, ends, claimed = dict[Hearing, int](), dict[Hearing, int](), set[Hearing]()
        trials = dict[Hearing, Trial]()
        try:
            for hearing in self._plan.hearings:
                client, source = self._client(hearing), hearing.source
                found = committed_of(client, hearing)
                if found.offset is not None:
                    positions[hearing] = found.offset
                ends[hearing] = watermarks(client, source.topic, source.partition)[1]
                claim = parse_claim(found.metadata)
                if claim is not None and self._is_present(claim):
                    claimed.add(hearing)
                if claim is not None and claim.run == self._plan.run and claim.trial is not None:
                    trials[hearing] = claim.trial
        except (KafkaException, MissingError, CqrsError):
            self._begun = time.monotonic()  # nobody can claim meanwhile
            self.close()  # a client that once met a broker cut off from the others may go on being wrong
            return self._last
        self._trials = trials
        self._last = ProcessProgress(
            time.monotonic(), positions, self._plan.targets or ends, frozenset(claimed)
        )
        return self._last

    def _is_present(self, claim: Claim) -> bool:
        return claim.run == self._plan.run and claim.submission >= self._submission

    def _client(self, hearing: Hearing) -> Consumer:
        if hearing.process not in self._clients:
            group = self._plan.topics(hearing).group
            self._clients[hearing.process] = consumer(
                self._plan.connection, group=group, isolation="read_uncommitted"
            )
        return self._clients[hearing.process]

    def check(self) -> None:
        """Raise `ContradictionError` if a topic was made again: a reader may hear of that after minutes, or never.

        Raises `UnavailableError` for partitions that nobody has claimed in time.
        """
        now, patience = time.monotonic(), self._plan.timing.claim_deadline
        missing = [one for one in self._plan.hearings if one not in self._last.claimed]
        if missing and self._plan.targets is None and now - self._begun > patience:
            raise UnavailableError(
                f"nobody owns {missing[0]} after {patience:.0f} s",
                "are there enough task slots, and do the workers reach the broker? cqrs doctor, and Spark's log",
            )
        if now - self._checked > _TOPICS_EVERY:
            self._checked = now
            with suppress(UnavailableError):
                self._check_topics()

    def _check_topics(self) -> None:
        with Admin(self._plan.connection) as admin:
            found = admin.describe(list(self._plan.events))
        for hearing in self._plan.hearings:
            there = found.get(hearing.source.topic)
            if there is not None and there.topic_id != self._plan.events[hearing.source.topic].topic_id:
                raise topic_made_again(hearing)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()
