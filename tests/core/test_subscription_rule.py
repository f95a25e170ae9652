"""Subscriptions to personal fields must handle `Erased`."""

import pytest

from aggregates.counter import Incremented
from aggregates.counter import decider as counter_decider
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.core.subscription_rule import check_subscription
from tests.core.personal.customer import CUSTOMER, Ordered, Registered

COUNTER = Aggregate.of("counter", counter_decider)


@pytest.mark.parametrize(
    ("events", "keeps_personal"),
    [
        ({Registered, Erased}, None),
        ({Registered}, "a law asks for it"),
        ({Incremented, Erased}, None),
        ({Incremented}, None),
        (set(), None),
    ],
)
def test_allowed_subscriptions(events: set[type[Event]], keeps_personal: str | None) -> None:
    check_subscription(events, [COUNTER, CUSTOMER], keeps_personal)


@pytest.mark.parametrize(
    ("events", "keeps_personal", "message"),
    [
        ({Registered}, None, "^personal fields are in Registered: subscribe to cqrs.Erased, too"),
        ({Registered, Ordered, Incremented}, None, "fields are in Ordered, Registered: subscribe"),
        ({Registered}, " ", "keeps_personal must be .* found ' '"),
        ({Registered}, True, "keeps_personal must be .* found True"),
    ],
)
def test_refused_subscriptions(events: set[type[Event]], keeps_personal: str | None, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        check_subscription(events, [COUNTER, CUSTOMER], keeps_personal)


def test_erased_without_personal_fields_is_refused() -> None:
    with pytest.raises(TypeError, match="none of its aggregates has personal fields"):
        check_subscription({Incremented, Erased}, [COUNTER])
