"""The advice of `cqrs send --wait` and `--dry-run` for a command that was rejected or failed."""

import pytest

from cqrs_cli.cli.render.send import rejection_error
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, Verdict


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        (
            "HANDLER_ERROR",
            "correct and deploy the aggregate's code, then repeat the command: cqrs dead-letters retry a",
        ),
        ("INVALID_PAYLOAD", "correct it, and send it again"),
    ],
)
def test_advice_names_what_to_correct(reason: str, advice: str) -> None:
    outcome = OutcomeEnvelope(id="0/0", type="a.B.failed", data=Verdict(status="failed", reason=reason))
    assert rejection_error([outcome], 1).hint == advice
