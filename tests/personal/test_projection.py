"""A projection of personal data has the values while their key is in force, and deletes them on the erasure."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.personal.people import FIRST_KEY, SECOND_KEY, People

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(find_spec("sqlalchemy") is None, reason="needs the extra `projections`"),
]

_CODE = """
from collections.abc import Sequence

from sqlalchemy import Column, Connection, MetaData, String, Table, insert, update

import cqrs_cli as cqrs
from people.customer import Registered

metadata = MetaData()
names = Table("names", metadata, Column("id", String(50), primary_key=True), Column("name", String(50)))


def project(db: Connection, events: Sequence[cqrs.Recorded[Registered | cqrs.Erased]]) -> None:
    for recorded in events:
        match recorded.event:
            case Registered(name=name):
                db.execute(insert(names).values(id=recorded.aggregate_id, name=name))
            case cqrs.Erased():
                db.execute(update(names).where(names.c.id == recorded.aggregate_id).values(name="erased"))


projection = cqrs.Projection(project, metadata)
"""


def projected_names(people: People, connection: Connection, database: str) -> Mapping[str, str]:
    """Return the projected names by id, after all existing events."""
    from sqlalchemy import text

    from cqrs_cli.following.projections.database import open_database, parse_database, read_only
    from cqrs_cli.following.projections.load import load_projection
    from cqrs_cli.following.projections.prepare import prepare_projection, stable_ends
    from cqrs_cli.following.projections.task import run_task

    folder = people.folder
    (folder / "projections").mkdir(exist_ok=True)
    (folder / "projections/names.py").write_text(_CODE)
    loaded = load_projection("names", folder, "people")
    address = parse_database(f"sqlite:///{database}.db", folder)
    prepared = prepare_projection(people.harness.settings, connection, loaded, address, print)
    assert prepared.live is not None
    plan = replace(prepared.live, end_offsets=stable_ends(prepared.live))
    results = list(run_task(plan, range(len(plan.sources)), folder, folder))
    assert [result.error for result in results] == [None]
    engine = open_database(address)
    with read_only(engine).begin() as db:
        rows = db.execute(text("select id, name from names")).all()
    engine.dispose()
    return {str(id): str(name) for id, name in rows}


def test_projection_gets_values_and_erasures(people: People) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    people.register_with_new_key("bob", SECOND_KEY)
    assert projected_names(people, people.connection, "seen") == {"ann": "Ann Smith", "bob": "Ann Smith"}
    people.erase("ann", FIRST_KEY)
    assert projected_names(people, people.connection, "seen") == {"ann": "erased", "bob": "Ann Smith"}
    assert projected_names(people, people.connection, "later") == {"ann": "erased", "bob": "Ann Smith"}


def test_projection_without_keyring_gets_redacted_values(people: People) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    assert projected_names(people, people.connection_without_keyring, "blind") == {"ann": ""}
