"""Kafka leaves a transaction with new data keys open on some partitions: no key that events need is lost."""

from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.customers import CUSTOMER_STATE, customer_topics, decrypted_states, register_command
from tests.support.hanging_transactions import Part, decide_hanging
from tests.support.owners import run_plan, running_owners
from tests.support.raw_requests import RawClient
from tests.support.sampling import sample_cases
from tests.support.short_timeouts import short_read_timeout

pytestmark = pytest.mark.kafka


#: The parts of a transaction that are visible, and the parts that are left open.
PARTS: dict[str, tuple[list[Part], list[Part]]] = {
    "keys missing": (["events", "outcomes", "position"], ["keys"]),
    "keys alone": ([], ["keys"]),
    "keys visible": (["keys", "outcomes"], ["events", "position"]),
    "no keys visible": (["outcomes", "position"], ["events", "keys"]),
}


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("case", sample_cases(PARTS, "keys missing", "keys alone"))
def test_half_a_transaction_keeps_keys(
    connection: Connection, prefix: str, tmp_path: Path, client: RawClient, case: str
) -> None:
    """After a hanging transaction, a committed data key stays, and an uncommitted key is created again."""
    visible, hidden = PARTS[case]
    people = customer_topics(connection, prefix, tmp_path)
    people.send(register_command("c-1"))
    run_plan(people.plan())
    decide_hanging(people, client, [register_command("c-2"), register_command("c-3")], visible, hidden)
    with short_read_timeout(), running_owners(people.plan()) as owner:
        assert owner.error() is None
        (note,) = owner.notes()
    assert "KAFKA-20734" in note and ("it is committed" in note) is bool(visible)
    run_plan(people.plan(machine="other"))
    assert (
        decrypted_states(people)
        == decrypted_states(people, "other")
        == dict.fromkeys(("c-1", "c-2", "c-3"), CUSTOMER_STATE)
    )
