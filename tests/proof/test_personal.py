"""Fingerprints of commands with personal fields, verified with the code that decided and with later code."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.checks import fingerprint_function
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.fingerprint import fingerprint, fingerprint_without
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.personal_fields import Personal
from cqrs_cli.proof.documents import fits_document
from cqrs_cli.proof.fingerprints import MAX_LEFT_OUT, fingerprint_check_of, fits_whole
from tests.core.personal.customer import CUSTOMER
from tests.proof import history
from tests.proof.history import AGGREGATE, Added, Tally, evolve, wish
from tests.proof.violations import described

ORDER = "customer.Order"
fits = fingerprint_check_of(CUSTOMER)
members = st.dictionaries(st.sampled_from(["street", "income", "amount", "more"]), st.integers())


class Add(cqrs.Command):
    n: int
    who: Personal[str] = ""


def decide(command: Add, tally: Tally) -> Iterator[Added]:
    yield Added(command.n)


MARKED = Aggregate.of("tally", cqrs.Decider(decide, evolve, Tally()))


class Marked(history.History):
    aggregate = MARKED


def sent(**data: Any) -> history.Wish:
    return wish(1, data={"n": 1, **data})


def test_personal_values_do_not_count() -> None:
    told = Marked([sent(who="Ann")])
    assert told.violations(has_fingerprint=fingerprint_check_of(MARKED)) == []
    told.commands = Marked([sent(who="Bob")]).commands
    assert told.violations(has_fingerprint=fingerprint_check_of(MARKED)) == []


def test_all_else_counts() -> None:
    told = Marked([sent(who="Ann")])
    told.commands = Marked([wish(1, data={"n": 2, "who": "Ann"})]).commands
    assert "does not have the fingerprint of its command" in " ".join(
        described(told, has_fingerprint=fingerprint_check_of(MARKED))
    )


def test_earlier_code_had_fewer_marks() -> None:
    """Outcomes of earlier code stay in the log when a field becomes personal."""
    assert history.History([wish(1)]).violations(has_fingerprint=fingerprint_check_of(MARKED)) == []


@given(
    members,
    st.sampled_from([ORDER, "customer.Gone", "cqrs.Cancel"]),
    st.sets(st.sampled_from(["street", "income"])),
)
def test_any_earlier_marks_fit(data: dict[str, int], kind: str, marks: set[str]) -> None:
    text = encode_json(data)
    left_out = frozenset(marks if kind != "cqrs.Cancel" else ())
    assert fits(fingerprint_without({kind: left_out})(kind, text, "1"), kind, text, "1")


def test_members_without_marks_always_count() -> None:
    text = b'{"street":["x"],"amount":1}'
    assert not fits(fingerprint_without({ORDER: frozenset({"amount"})})(ORDER, text, None), ORDER, text, None)
    assert not fits(None, ORDER, text, None)


def test_unknown_types_with_many_members_fit() -> None:
    """There are too many combinations to try, and a verification reports only certain violations."""
    some = encode_json({f"f{n}": n for n in range(MAX_LEFT_OUT)})
    more = encode_json({f"f{n}": n for n in range(MAX_LEFT_OUT + 1)})
    assert not fits(-1, "customer.Gone", some, None)
    assert fits(-1, "customer.Gone", more, None)


@pytest.mark.parametrize("aggregate", [None, AGGREGATE])
def test_nothing_is_left_out_without_marks(aggregate: Aggregate | None) -> None:
    assert fingerprint_check_of(aggregate) is fits_whole
    assert not fits_whole(
        fingerprint_without({"a": frozenset({"b"})})("a", b'{"b":1}', None), "a", b'{"b":1}', None
    )


@pytest.mark.parametrize("around", ["", " ", "\r\n"])
def test_deferred_document_fits(around: str) -> None:
    """The sender used binary mode with spaces that no document keeps. The field became personal before or after."""
    record = Marked([sent(who="Ann")]).commands[0]
    envelope = read_command(record)
    sent_as = around.encode() + bytes(envelope.data) + around.encode()
    for decided in (fingerprint, fingerprint_function(MARKED)):
        mark = decided(envelope.type, sent_as, None)
        assert fits_document(envelope, mark, fingerprint_check_of(MARKED))
        assert not fits_document(envelope, mark ^ 1, fingerprint_check_of(MARKED))
