"""Subscriptions to personal fields must handle `Erased`."""

import pytest

from aggregates.counter import Incremented
from aggregates.counter import decider as counting
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.core.subscription_rule import check_subscription
from tests.core.personal.customer import CUSTOMER, Ordered, Registered

COUNTER = Aggregate.of("counter", counting)


@pytest.mark.parametrize(
    ("events", "keeps"),
    [
        ({Registered, Erased}, None),
        ({Registered}, "a law asks for it"),
        ({Incremented, Erased}, None),
        ({Incremented}, None),
        (set(), None),
    ],
)
def test_what_may_be_heard(events: set[type[Event]], keeps: str | None) -> None:
    check_subscription(events, [COUNTER, CUSTOMER], keeps)


@pytest.mark.parametrize(
    ("events", "keeps", "complaint"),
    [
        ({Registered}, None, "^personal fields are in Registered: subscribe to cqrs.Erased, too"),
        ({Registered, Ordered, Incremented}, None, "fields are in Ordered, Registered: subscribe"),
        ({Registered}, " ", "keeps_personal must be .* found ' '"),
        ({Registered}, True, "keeps_personal must be .* found True"),
    ],
)
def test_what_is_refused(events: set[type[Event]], keeps: str | None, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        check_subscription(events, [COUNTER, CUSTOMER], keeps)


def test_erasing_is_heard_of_something() -> None:
    with pytest.raises(TypeError, match="none of its aggregates has personal fields"):
        check_subscription({Incremented, Erased}, [COUNTER])
