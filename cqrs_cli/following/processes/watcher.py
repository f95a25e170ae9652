"""Watches a run's processes. Progress comes with the claims beside the groups' offsets, which repeat the positions."""

import time

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.processes.explain import explain_trial, topic_made_again
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessProgress, Subscription
from cqrs_cli.following.processes.positions import committed_of
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.clients import consumer, unreachable
from cqrs_cli.kafka.readers import MissingError, watermarks
from cqrs_cli.ownership.claim import Claim, parse_claim
from cqrs_cli.ownership.trials.trial import Trial

#: Seconds between two looks at the topics.
_TOPICS_EVERY = 10.0


class ProcessWatcher:
    """Reads how far the processes are, from their groups' offsets and the ends of the logs."""

    def __init__(self, plan: ProcessPlan) -> None:
        self._plan = plan
        self._clients: dict[str, Consumer] = {}
        self._submission = 0
        self._trials: dict[Subscription, Trial] = {}
        self._checked = time.monotonic()
        self.claimed = False  # whether the present submission has claimed anything

    def begin(self, submission: int) -> None:
        """Watch this submission from now on: the claims of those before do not count."""
        self._submission, self.claimed = submission, False

    def suspicions(self) -> list[str]:
        """The events on which workers may be dying, as of the last look."""
        return [
            f"{subscription}: {explain_trial(trial)}" for subscription, trial in sorted(self._trials.items())
        ]

    def look(self) -> ProcessProgress:
        """The progress now; raises `UnavailableError` if the broker does not answer."""
        positions, ends, claimed = dict[Subscription, int](), dict[Subscription, int](), set[Subscription]()
        trials = dict[Subscription, Trial]()
        try:
            for subscription in self._plan.subscriptions:
                client, source = self._client(subscription), subscription.source
                found = committed_of(client, subscription)
                if found.offset is not None:
                    positions[subscription] = found.offset
                ends[subscription] = watermarks(client, source.topic, source.partition)[1]
                claim = parse_claim(found.metadata)
                if claim is not None and self._is_present(claim):
                    claimed.add(subscription)
                if claim is not None and claim.run == self._plan.run and claim.trial is not None:
                    trials[subscription] = claim.trial
        except (KafkaException, MissingError) as error:
            self.close()  # a client that once met a broker cut off from the others may go on being wrong
            why = error.message if isinstance(error, MissingError) else error
            raise unreachable(self._plan.connection, why) from error
        self._trials = trials
        self.claimed = bool(claimed)
        return ProcessProgress(time.monotonic(), positions, self._plan.targets or ends, frozenset(claimed))

    def _is_present(self, claim: Claim) -> bool:
        return claim.run == self._plan.run and claim.submission >= self._submission

    def _client(self, subscription: Subscription) -> Consumer:
        if subscription.process not in self._clients:
            group = self._plan.topics(subscription).group
            self._clients[subscription.process] = consumer(
                self._plan.connection, group=group, isolation="read_uncommitted"
            )
        return self._clients[subscription.process]

    def check_topics(self) -> None:
        """Raise `ContradictionError` if a topic was made again: a reader may hear of that after minutes, or never."""
        if time.monotonic() - self._checked < _TOPICS_EVERY:
            return
        self._checked = time.monotonic()
        try:
            with Admin(self._plan.connection) as admin:
                found = admin.describe(list(self._plan.events))
        except UnavailableError:
            return
        for subscription in self._plan.subscriptions:
            there = found.get(subscription.source.topic)
            if there is not None and there.topic_id != self._plan.events[subscription.source.topic].topic_id:
                raise topic_made_again(subscription)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()
