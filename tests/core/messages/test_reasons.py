import pytest

from cqrs_cli.core.messages.reasons import REMEMBERED, STATUSES, Reason, is_remembered
from cqrs_cli.ownership.claim import Counts


def test_counters_count_every_status() -> None:
    assert Counts.__struct_fields__[: len(STATUSES)] == tuple(STATUSES)


def test_order_of_remembered_statuses_is_fixed() -> None:
    assert REMEMBERED == ("accepted", "unchanged", "rejected")


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_status(reason: Reason) -> None:
    assert reason.status in ("rejected", "failed", "deferred")
    assert reason.remembered <= STATUSES[reason.status].remembered


@pytest.mark.parametrize(
    ("status", "reason", "remembered"),
    [
        ("accepted", None, True),
        ("rejected", "BUSINESS_RULE", True),
        ("rejected", "ID_REUSED", False),
        ("rejected", "OF_A_LATER_RELEASE", True),
        ("duplicate", None, False),
        ("failed", "TOO_LARGE", False),
        ("nothing", None, False),
    ],
)
def test_some_decisions_are_remembered(status: str, reason: str | None, remembered: bool) -> None:
    assert is_remembered(status, reason) is remembered
