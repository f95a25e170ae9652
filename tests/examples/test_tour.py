"""The project in examples/customers, from its keyring to its read model: a customer registers, and is erased."""

import json
import shutil
import sqlite3
import uuid

import pytest

from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.support import ROOT
from tests.support.project import LOCAL_MASTER, Project

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PERSONAL_NAME = "Nadelheim"


@pytest.fixture(scope="module")
def shop(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the project, with a keyring, topics and two customers whose registration is decided."""
    ignore = shutil.ignore_patterns("__pycache__")
    folder = tmp_path_factory.mktemp("customers") / "shop"
    shutil.copytree(ROOT / "examples/customers", folder, ignore=ignore)
    project = Project(folder, connection, f"t{uuid.uuid4().hex[:8]}.")
    project.cqrs("keys", "init")
    project.cqrs("init", "customer", "--partitions", "2")
    for id, name in (("c-1", PERSONAL_NAME), ("c-2", "Bob")):
        project.cqrs(
            "send", "customer", id, "Register", f"name={name}", f"mail={name}@example.org", "country=GB"
        )
    project.cqrs("run", "--once", *LOCAL_MASTER)
    return project


def mailing_list(shop: Project) -> list[str]:
    """Project all events, and return the names on the mailing list."""
    shop.cqrs("project", "mailing_list", "--once")
    with sqlite3.connect(shop.folder / "projections.db") as db:
        return [name for (name,) in db.execute("SELECT name FROM mailing_list ORDER BY name")]


def topic_bytes(shop: Project, topic: str) -> bytes:
    """Return all bytes of a topic, as Kafka stores them."""
    content = b""
    count = readers.partition_count(shop.connection, topic)
    for partition, (start, end) in readers.bounds(shop.connection, topic, range(count)).items():
        for records in readers.read(shop.connection, topic, partition, start, end):
            content += b"".join((record.key or b"") + (record.value or b"") for record in records)
    return content


def test_only_commands_have_plain_values(shop: Project) -> None:
    """Commands stay as sent until their retention is over.

    No other topic has unencrypted values, even before an erasure: the next test erases the customers.
    """
    topics = Topics("customer", shop.prefix)
    names = [*(topics.name(kind) for kind in ("events", "outcomes", "dead-letters", "deferred")), topics.keys]
    has_name = {name: PERSONAL_NAME.encode() in topic_bytes(shop, name) for name in names}
    assert has_name == dict.fromkeys(names, False)
    assert PERSONAL_NAME.encode() in topic_bytes(shop, topics.commands)
    files = [path for path in (shop.folder / ".cqrs").rglob("*") if path.is_file()]
    assert [path.name for path in files if PERSONAL_NAME.encode() in path.read_bytes()] == []
    assert "data.mdb" in {path.name for path in files}


def test_customers_are_registered_and_erased(shop: Project) -> None:
    state = shop.json("show", "customer", "c-1")["state"]
    assert (state["name"], mailing_list(shop)) == (PERSONAL_NAME, ["Bob", PERSONAL_NAME])
    shop.cqrs("erase", "customer", "c-1", "--no-wait")
    shop.cqrs("run", "--once", *LOCAL_MASTER)
    with shop.running("run", *LOCAL_MASTER):
        second_outcome = shop.json("erase", "customer", "c-1", "--timeout", "60s")
        other_outcome = shop.json("erase", "customer", "c-2", "--timeout", "60s")
    assert (second_outcome["data"]["status"], other_outcome["data"]["status"]) == ("unchanged", "accepted")
    state = shop.json("show", "customer", "c-1")["state"]
    assert state == {"status": "erased", "name": "", "mail": "nobody@invalid", "address": "", "country": "GB"}
    assert mailing_list(shop) == []
    lines = [json.loads(line) for line in (shop.folder / "erasures.ndjson").read_text().splitlines()]
    # The second erasure of c-1 finds no data key. When it is sent, it adds a line without `key`. Once it is decided,
    # it adds a line whose `key` is null.
    second_erasure = [("c-1", False), ("c-1", True)]
    assert [(line["id"], "key" in line) for line in lines] == [("c-1", True), *second_erasure, ("c-2", True)]
    assert "no violation" in shop.cqrs("verify", "customer", *LOCAL_MASTER)
