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
from tests.proof.history import AGGREGATE, Added, Tally, evolve, plan_command
from tests.proof.violations import violation_texts

ORDER = "customer.Order"
fits = fingerprint_check_of(CUSTOMER)
members = st.dictionaries(st.sampled_from(["street", "income", "amount", "more"]), st.integers())


class Add(cqrs.Command):
    n: int
    who: Personal[str] = ""


def decide(command: Add, tally: Tally) -> Iterator[Added]:
    yield Added(command.n)


ANNOTATED = Aggregate.of("tally", cqrs.Decider(decide, evolve, Tally()))


class AnnotatedHistory(history.History):
    aggregate = ANNOTATED


def add_with(**data: Any) -> history.PlannedCommand:
    return plan_command(1, data={"n": 1, **data})


def test_personal_values_do_not_count() -> None:
    annotated_history = AnnotatedHistory([add_with(who="Ann")])
    assert annotated_history.violations(fits_command=fingerprint_check_of(ANNOTATED)) == []
    annotated_history.commands = AnnotatedHistory([add_with(who="Bob")]).commands
    assert annotated_history.violations(fits_command=fingerprint_check_of(ANNOTATED)) == []


def test_other_values_count() -> None:
    annotated_history = AnnotatedHistory([add_with(who="Ann")])
    annotated_history.commands = AnnotatedHistory([plan_command(1, data={"n": 2, "who": "Ann"})]).commands
    assert "does not have the fingerprint of its command" in " ".join(
        violation_texts(annotated_history, fits_command=fingerprint_check_of(ANNOTATED))
    )


def test_earlier_code_had_fewer_annotations() -> None:
    """Outcomes of earlier code stay in the log when a field becomes personal."""
    assert history.History([plan_command(1)]).violations(fits_command=fingerprint_check_of(ANNOTATED)) == []


@given(
    members,
    st.sampled_from([ORDER, "customer.Gone", "cqrs.Cancel"]),
    st.sets(st.sampled_from(["street", "income"])),
)
def test_any_earlier_annotations_fit(
    data: dict[str, int], type_name: str, annotated_fields: set[str]
) -> None:
    text = encode_json(data)
    left_out = frozenset(annotated_fields if type_name != "cqrs.Cancel" else ())
    assert fits(fingerprint_without({type_name: left_out})(type_name, text, "1"), type_name, text, "1")


def test_members_without_annotation_always_count() -> None:
    text = b'{"street":["x"],"amount":1}'
    assert not fits(fingerprint_without({ORDER: frozenset({"amount"})})(ORDER, text, None), ORDER, text, None)
    assert not fits(None, ORDER, text, None)


def test_unknown_types_with_many_members_fit() -> None:
    """There are too many combinations to try, and a verification reports only certain violations."""
    few_fields = encode_json({f"f{n}": n for n in range(MAX_LEFT_OUT)})
    many_fields = encode_json({f"f{n}": n for n in range(MAX_LEFT_OUT + 1)})
    assert not fits(-1, "customer.Gone", few_fields, None)
    assert fits(-1, "customer.Gone", many_fields, None)


@pytest.mark.parametrize("aggregate", [None, AGGREGATE])
def test_nothing_is_omitted_without_annotations(aggregate: Aggregate | None) -> None:
    assert fingerprint_check_of(aggregate) is fits_whole
    assert not fits_whole(
        fingerprint_without({"a": frozenset({"b"})})("a", b'{"b":1}', None), "a", b'{"b":1}', None
    )


@pytest.mark.parametrize("whitespace", ["", " ", "\r\n"])
def test_deferred_document_fits(whitespace: str) -> None:
    """The sender used binary mode with spaces that no document keeps. The field became personal before or after."""
    record = AnnotatedHistory([add_with(who="Ann")]).commands[0]
    envelope = read_command(record)
    sent_data = whitespace.encode() + bytes(envelope.data) + whitespace.encode()
    for fingerprint_of in (fingerprint, fingerprint_function(ANNOTATED)):
        expected = fingerprint_of(envelope.type, sent_data, None)
        assert fits_document(envelope, expected, fingerprint_check_of(ANNOTATED))
        assert not fits_document(envelope, expected ^ 1, fingerprint_check_of(ANNOTATED))
