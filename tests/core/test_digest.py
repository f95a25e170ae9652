"""Equal aggregates have equal digests, and different aggregates have different digests."""

import hashlib
import random
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from aggregates.counter import decider as counter_decider
from cqrs_cli.core import digest
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encrypted_data import encrypt_data
from cqrs_cli.core.personal.encryption import DataKey, ValueLocation
from tests.core.personal.customer import CUSTOMER, Customer

Row = tuple[str, int, bytes]
rows = st.tuples(st.text(max_size=8), st.integers(1, 2**53), st.binary(max_size=16))


def total_digest(aggregates: list[Row]) -> int:
    return reduce(digest.add_digests, (digest.aggregate_digest(*row) for row in aggregates), 0)


@given(st.lists(rows), st.randoms(use_true_random=False))
def test_order_does_not_matter(aggregates: list[Row], order: random.Random) -> None:
    shuffled = aggregates.copy()
    order.shuffle(shuffled)
    assert total_digest(shuffled) == total_digest(aggregates)


@given(st.lists(rows), st.lists(rows))
def test_digests_of_parts_can_be_added(aggregates: list[Row], other_aggregates: list[Row]) -> None:
    assert digest.add_digests(total_digest(aggregates), total_digest(other_aggregates)) == total_digest(
        aggregates + other_aggregates
    )


@given(rows, rows)
def test_other_aggregates_have_other_digests(first: Row, second: Row) -> None:
    assert (digest.aggregate_digest(*first) == digest.aggregate_digest(*second)) == (first == second)


def test_boundary_between_id_and_state_matters() -> None:
    assert digest.aggregate_digest("a", 1, b"bc") != digest.aggregate_digest("ab", 1, b"c")


def test_sum_wraps_into_64_digits() -> None:
    assert digest.as_hex(digest.add_digests(digest.MODULUS - 1, 2)) == "0" * 63 + "1"


def test_framing_must_not_change() -> None:
    framed_bytes = b"\x00\x00\x00\x02" + (7).to_bytes(8, "big") + (3).to_bytes(8, "big") + b"id" + b"{ }"
    assert digest.as_hex(digest.aggregate_digest("id", 7, b"{ }")) == hashlib.sha256(framed_bytes).hexdigest()


def test_personal_fields_do_not_change_the_digest() -> None:
    """Unencrypted, encrypted and erased states of an aggregate have the same digest."""
    erased, plain = encode_json(Customer(plan="free")), encode_json(Customer("Ann", plan="free"))
    encrypted = encrypt_data(
        Customer, plain, DataKey.of_random(bytes(72)), ValueLocation("customer", "a", "state", "")
    )
    digests = {digest.state_digest(CUSTOMER, "a", 1, state) for state in (erased, plain, encrypted)}
    assert digests == {digest.aggregate_digest("a", 1, erased)}
    counter = Aggregate.of("counter", counter_decider)
    assert digest.state_digest(counter, "a", 1, b"{ }") == digest.aggregate_digest("a", 1, b"{ }")
