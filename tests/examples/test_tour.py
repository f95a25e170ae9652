"""The project in examples/customers, from its keyring to its read model: a customer registers, and is erased."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.support import ROOT
from tests.support.project import LOCAL, Project

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

NEEDLE = "Nadelheim"


@pytest.fixture
def shop(connection: Connection, prefix: str, tmp_path: Path) -> Project:
    """A copy of the project, with a keyring, topics and two customers whose registration is decided."""
    ignored = shutil.ignore_patterns("__pycache__")
    folder = Path(shutil.copytree(ROOT / "examples/customers", tmp_path / "shop", ignore=ignored))
    made = Project(folder, connection, prefix)
    made.cqrs("keys", "init")
    made.cqrs("init", "customer", "--partitions", "2")
    for id, name in (("c-1", NEEDLE), ("c-2", "Bob")):
        made.cqrs(
            "send", "customer", id, "Register", f"name={name}", f"mail={name}@example.org", "country=GB"
        )
    made.cqrs("run", "--once", *LOCAL)
    return made


def mailed(shop: Project) -> list[str]:
    """Project all events, and return the names on the mailing list."""
    shop.cqrs("project", "mailing_list", "--once")
    with sqlite3.connect(shop.folder / "projections.db") as db:
        return [name for (name,) in db.execute("SELECT name FROM mailing_list ORDER BY name")]


def written(shop: Project, topic: str) -> bytes:
    """Return all bytes of a topic, as Kafka stores them."""
    found = b""
    count = readers.partition_count(shop.connection, topic)
    for partition, (start, end) in readers.bounds(shop.connection, topic, range(count)).items():
        for records in readers.read(shop.connection, topic, partition, start, end):
            found += b"".join((one.key or b"") + (one.value or b"") for one in records)
    return found


def test_customers_come_and_are_erased(shop: Project) -> None:
    state = shop.json("show", "customer", "c-1")["state"]
    assert (state["name"], mailed(shop)) == (NEEDLE, ["Bob", NEEDLE])
    shop.cqrs("erase", "customer", "c-1", "--no-wait")
    shop.cqrs("run", "--once", *LOCAL)
    with shop.running("run", *LOCAL):
        again = shop.json("erase", "customer", "c-1", "--timeout", "60s")
        other = shop.json("erase", "customer", "c-2", "--timeout", "60s")
    assert (again["data"]["status"], other["data"]["status"]) == ("unchanged", "accepted")
    state = shop.json("show", "customer", "c-1")["state"]
    assert state == {"status": "erased", "name": "", "mail": "nobody@invalid", "address": "", "country": "GB"}
    assert mailed(shop) == []
    lines = [json.loads(line) for line in (shop.folder / "erasures.ndjson").read_text().splitlines()]
    repetition = [
        ("c-1", False),
        ("c-1", True),
    ]  # there was no key when it was sent, and none when it was decided
    assert [(line["id"], "key" in line) for line in lines] == [("c-1", True), *repetition, ("c-2", True)]
    assert "no violation" in shop.cqrs("verify", "customer", *LOCAL)


def test_plain_values_are_in_commands_alone(shop: Project) -> None:
    """Commands stay as sent until their retention is over.

    No other topic has unencrypted values, even before an erasure.
    """
    topics = Topics("customer", shop.prefix)
    names = [*(topics.name(kind) for kind in ("events", "outcomes", "dead-letters", "deferred")), topics.keys]
    found = {name: NEEDLE.encode() in written(shop, name) for name in names}
    assert found == dict.fromkeys(names, False)
    assert NEEDLE.encode() in written(shop, topics.commands)
    kept = [path for path in (shop.folder / ".cqrs").rglob("*") if path.is_file()]
    assert [path.name for path in kept if NEEDLE.encode() in path.read_bytes()] == []
    assert "data.mdb" in {path.name for path in kept}
