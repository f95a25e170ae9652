"""Clients that send to bank accounts continuously, and wait for the outcomes of each round before the next round."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from cqrs_cli.client.outcomes import OutcomeWaiter
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import producer_partition
from tests.support.commands import FAR_FUTURE, document
from tests.support.harness import TopicHarness
from tests.support.repartitioning import current_lineage

#: Accounts of each client, in addition to the account that all clients share.
ACCOUNTS_PER_CLIENT = 4

Document = dict[str, Any]


class StaleProducer(CommandProducer):
    """A client that knows of no repartitioning: it sends with an outdated partition count."""

    def __init__(self, connection: Connection, count: int) -> None:
        super().__init__(connection, "murmur2", reports=True)
        self._count = count

    def partition_of(self, topic: str, key: bytes) -> int:
        return producer_partition("murmur2", key, self._count)


class Client(threading.Thread):
    """Sends rounds until it is stopped. `sent` has its commands by id, in order of sending."""

    def __init__(self, bank: TopicHarness, number: int, stale: bool, stopping: threading.Event) -> None:
        super().__init__(daemon=True)
        self.accounts = [f"acc-{number}-{index}" for index in range(ACCOUNTS_PER_CLIENT)]
        self.sent: dict[str, Document] = {}
        self.rounds = 0
        self.error: BaseException | None = None
        self._bank, self._number, self._stale, self._stopping = bank, number, stale, stopping

    def run(self) -> None:
        try:
            with ExitStack() as stack:
                connection = self._bank.connection
                producer = (
                    StaleProducer(connection, self._bank.partitions)
                    if self._stale
                    else CommandProducer(connection, "murmur2", reports=True)
                )
                sender = stack.enter_context(producer)
                waiter = stack.enter_context(OutcomeWaiter(connection, sender))
                while not self._stopping.is_set() or self.rounds % 6:  # release deferred commands first
                    self._round(waiter)
        except BaseException as error:
            self.error = error

    def _round(self, waiter: OutcomeWaiter) -> None:
        for account in [*self.accounts, "shared"]:
            command = self._command(account)
            self.sent.setdefault(command["id"], command)
            value = json.dumps(command).encode()
            waiter.send(self._bank.topics, account.encode(), value, command["id"])
        for _ in waiter.remaining_outcomes(60):
            pass
        assert not waiter.outstanding, f"no outcome of {waiter.outstanding}"
        self.rounds += 1

    def _command(self, account: str) -> Document:
        """Return the next command of a cycle of six rounds.

        Deposit, deferred deposit, its repetition, withdrawal, release of the deferred deposit, withdrawal.
        """
        round, step = divmod(self.rounds, 6)
        id = f"{account}.{self._number}.{round}"
        deferred_deposit = document(
            "bank_account.Deposit", account, f"{id}.later", {"amount": 2}, notbefore=FAR_FUTURE
        )
        match step:
            case 0 if round == 0:
                return document("bank_account.Open", account, f"{id}.0", {"owner": "ann"})
            case 0:
                return document("bank_account.Deposit", account, f"{id}.0", {"amount": 5})
            case 1 | 2:
                return deferred_deposit
            case 4:
                kind = "cqrs.Release" if round % 2 else "cqrs.Cancel"
                return document(kind, account, f"{id}.4", {"id": deferred_deposit["id"]})
            case _:
                return document("bank_account.Withdraw", account, f"{id}.{step}", {"amount": 4})


@contextmanager
def traffic(bank: TopicHarness, clients: int = 8, stale: int = 4) -> Iterator[list[Client]]:
    """Run clients while the block lasts. `stale` clients never see a repartitioning."""
    stopping = threading.Event()
    all_clients = [Client(bank, number, number < stale, stopping) for number in range(clients)]
    for client in all_clients:
        client.start()
    try:
        yield all_clients
    finally:
        stopping.set()
        for client in all_clients:
            client.join(120)


def final_outcomes(bank: TopicHarness) -> dict[str, list[OutcomeEnvelope]]:
    """Return the final outcomes of each account's commands, in order along the partitions of its key."""
    history, outcomes_by_subject = current_lineage(bank), dict[str, list[OutcomeEnvelope]]()
    outcomes = [bank.outcomes(number) for number in range(bank.partitions)]
    for key_partition in range(history.counts[-1]):
        for partition, _ in history.segments(key_partition):
            for outcome in outcomes[partition]:
                subject = outcome.subject or ""
                final = outcome.data.status not in ("deferred", "duplicate")
                if (
                    final
                    and producer_partition("murmur2", subject.encode(), history.counts[-1]) == key_partition
                ):
                    outcomes_by_subject.setdefault(subject, []).append(outcome)
    return outcomes_by_subject


def decide_in_sequence(bank: TopicHarness, sent: list[Document]) -> Decisions:
    """Return the decisions on commands in sequence, in one partition. A deferred command is decided at once."""
    records = [
        Record(
            number, 0, record["subject"].encode(), json.dumps(_without_due_time(record)).encode(), [*HEADERS]
        )
        for number, record in enumerate(sent)
    ]
    return decide_batch(bank.aggregate, records, BatchContext(0, lambda _: None, lambda *_: None, lambda: 0))


def _without_due_time(command: Document) -> Document:
    return {name: value for name, value in command.items() if name != "notbefore"}
