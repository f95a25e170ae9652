"""One command against one state, as its outcome tells it."""

import pytest

from tests.core.tally import Partition, command, record


@pytest.mark.parametrize(
    ("kind", "data", "code", "message"),
    [
        ("Add", {"n": -1}, "NEGATIVE", "only up"),
        ("Crash", {"how": "number"}, "REJECTED", "42"),
    ],
)
def test_rejection_has_its_code(kind: str, data: object, code: str, message: str) -> None:
    verdict = Partition().verdict(record(0, command(kind, data)))
    assert (verdict["reason"], verdict["code"], verdict["message"]) == ("BUSINESS_RULE", code, message)
