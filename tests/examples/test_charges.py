"""The project in examples/charges: each request gets one receipt, although the calling program is killed."""

import os
import random
import shutil
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from cqrs_cli import registry
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.kafka import clients, offsets
from cqrs_cli.testing import laws
from tests.examples.provider import BLOCKED, REFUSED, UNAVAILABLE, Provider, running_provider
from tests.recipes.page import FILES
from tests.support import ROOT
from tests.support.commands import command
from tests.support.harness import TopicHarness
from tests.support.simple_owner import SimpleOwner
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from cqrs_cli.kafka.connection.connection import Connection

#: Notes in a file that the program gives partitions up.
REVOKE = 'lambda *_: (open("revoking", "w").close(), self.revoke())'

PROJECT = ROOT / "examples" / "charges"


class Charges:
    """The topics of the charges, the provider, and the program that calls it."""

    def __init__(self, topics: TopicHarness, prefix: str, provider: Provider) -> None:
        self.topics, self.provider, self.group = topics, provider, f"{prefix}call-provider"
        shutil.copytree(PROJECT, topics.folder, dirs_exist_ok=True)
        program = topics.folder / "call_provider.py"
        text = program.read_text().replace('"charge.events"', repr(topics.topics.events))
        text = text.replace('"call-provider"', repr(self.group))
        text = text.replace("TIMEOUT = 10", "TIMEOUT = 60")  # a blocked call must not be repeated
        program.write_text(text.replace("on_revoke=self.revoke", f"on_revoke={REVOKE}"))
        server = topics.connection.bootstrap_server
        variables = {"SERVER": server, "SERVICE": provider.url, "CQRS_TOPIC_PREFIX": prefix}
        self.environment = os.environ | variables

    def request(self, key: str, *amounts: int) -> None:
        """Request amounts, each of which is used only once."""
        self.topics.send(
            *(command("charge.Request", key, f"{amount}", {"amount": amount}) for amount in amounts)
        )

    @contextmanager
    def calling(self, instance: str = "a") -> Iterator[None]:
        """Run an instance of the program while the block lasts, then kill it."""
        process = subprocess.Popen(
            [sys.executable, "call_provider.py"],
            cwd=self.topics.folder,
            env=self.environment | {"INSTANCE": instance},
        )
        try:
            yield
            assert process.poll() is None
        finally:
            process.kill()
            process.wait()

    def events(self, *types: str) -> dict[str, list[tuple[str, Any]]]:
        """Return type and data of the events of each key, in order."""
        found = defaultdict(list)
        for partition in range(self.topics.partitions):
            for record in self.topics.records("events", partition):
                event = read_event(record.value)
                if (name := event.type.removeprefix("charge.")) in types:
                    found[event.subject].append((name, msgspec.json.decode(event.data)))
        return found

    def receipts(self) -> dict[str, list[tuple[str, int]]]:
        """Return type and number of the receipt events of each key, in order."""
        return {
            key: [(name, data["number"]) for name, data in events]
            for key, events in self.events("Paid", "Declined").items()
        }

    def progressed(self, calls: int, receipts: int) -> bool:
        return self.provider.calls >= calls or self.receipt_count() == receipts

    def receipt_count(self) -> int:
        return sum(map(len, self.receipts().values()))

    def receipt_statuses(self) -> set[str]:
        """Return the status of each receipt's outcome, or its reason."""
        outcomes = [o for n in range(self.topics.partitions) for o in self.topics.outcomes(n)]
        return {o.data.reason or o.data.status for o in outcomes if o.type.startswith("charge.Settle")}

    def committed_offset(self) -> int | None:
        """Return the program's committed offset on the first partition."""
        consumer = clients.consumer(self.topics.connection, group=self.group)
        committed = offsets.committed_offsets(consumer, self.topics.topics.events, [0], timeout=60)[0]
        consumer.close()
        return committed.offset


@contextmanager
def charges(connection: "Connection", prefix: str, folder: Path, partitions: int) -> Iterator[Charges]:
    """Charges whose commands an owner decides in the background."""
    topics = TopicHarness(connection, prefix, folder, "charge", partitions, "charges", PROJECT)
    owner = SimpleOwner(connection, topics.topics, topics.aggregate)
    with running_provider() as provider, owner.decide_in_background():
        yield Charges(topics, prefix, provider)


def test_recipe_shows_the_program() -> None:
    shown = textwrap.indent(FILES["call_provider.py"].strip(), "    ")
    assert shown in (PROJECT / "call_provider.py").read_text()


def test_charges_keep_the_laws() -> None:
    laws(registry.load("charge", "charges", PROJECT).decider, examples=50)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_each_request_has_one_receipt(
    connection: "Connection", prefix: str, tmp_path: Path, seed: int
) -> None:
    """The program is killed at random moments. It calls for each request, with one key, and in the order of a key."""
    choice = random.Random(seed)
    amounts = {f"k-{n}": [100 * n + i for i in range(8)] for n in range(1, 7)}
    amounts["k-1"][2:4] = [UNAVAILABLE, REFUSED]
    requested = {amount for group in amounts.values() for amount in group}
    with charges(connection, prefix, tmp_path, 4) as running:
        provider = running.provider
        for key, group in amounts.items():
            running.request(key, *group)
        for _ in range(5):
            calls = provider.calls + choice.randrange(1, 50)
            with running.calling():
                eventually(partial(running.progressed, calls, len(requested)))
        with running.calling():
            eventually(lambda: running.receipt_count() == len(requested))
        expected = {key: [("Paid", number) for number in range(1, 9)] for key in amounts}
        expected["k-1"][2:4] = [("Declined", 3), ("Declined", 4)]
        assert running.receipts() == expected
        assert {amount: len(keys) for amount, keys in provider.keys.items()} == dict.fromkeys(requested, 1)
        assert [[a for a in provider.amounts if a in group] for group in amounts.values()] == [
            *amounts.values()
        ]
        assert running.receipt_statuses() <= {"accepted", "duplicate", "ID_REUSED"}


@pytest.mark.kafka
@pytest.mark.program
def test_one_slow_call_delays_no_others(connection: "Connection", prefix: str, tmp_path: Path) -> None:
    """Nothing after the slow call is committed: after a kill it is called again."""
    with charges(connection, prefix, tmp_path, 1) as running:
        running.request("ann", 1, 3)
        running.request("bob", BLOCKED, 5)
        eventually(lambda: len(running.events("Requested").get("bob", [])) == 2)
        running.request("cid", 7, 9)
        with running.calling():
            eventually(lambda: running.receipt_count() == 4)
            eventually(lambda: running.committed_offset() == 2)
            assert "bob" not in running.receipts()
        running.provider.release.set()
        with running.calling():
            eventually(lambda: running.receipts().get("bob") == [("Paid", 1), ("Paid", 2)])
        assert len(running.provider.keys[BLOCKED]) == 1


@pytest.mark.kafka
@pytest.mark.program
def test_second_instance_takes_partitions_over(connection: "Connection", prefix: str, tmp_path: Path) -> None:
    """The first instance ends its running call before it gives its partitions up. Its waiting events go on."""
    with charges(connection, prefix, tmp_path, 4) as running:
        running.request("ann", BLOCKED, 1, 3, 5)
        for number in range(6):  # their workers differ from ann's
            running.request(f"k-{number}", 100 * number + 21, 100 * number + 23)
        with running.calling():
            eventually(lambda: running.receipt_count() == 12)
            with running.calling("b"):
                eventually((tmp_path / "revoking").exists)
                running.provider.release.set()
                eventually(lambda: running.receipt_count() == 16)
        assert {key: numbers for key, numbers in running.receipts().items() if key != "ann"} == {
            f"k-{number}": [("Paid", 1), ("Paid", 2)] for number in range(6)
        }
        assert running.receipts()["ann"] == [("Paid", number) for number in range(1, 5)]
        assert [running.provider.calls_by_amount[amount] for amount in (BLOCKED, 1, 3, 5)] == [1, 1, 1, 1]
