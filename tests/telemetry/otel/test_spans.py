"""Spans are values: the id of a span and of its parent follow from the records."""

import pytest

from cqrs_cli.core.messages.outcome import OutcomeEnvelope, Verdict
from cqrs_cli.telemetry.otel.spans import TraceContext, decision_id, decision_span


@pytest.mark.parametrize("deferredfrom", ["3/120", "aBcD/3/120"])
def test_deferral_is_the_parent(deferredfrom: str) -> None:
    verdict = Verdict(status="accepted", partition=7, offset=130, deferredfrom=deferredfrom)
    outcome = OutcomeEnvelope(id="7/130", type="account.Open.accepted", data=verdict)
    span = decision_span(outcome, "account.commands", "a", TraceContext(1, 2), 0, 0)
    assert span.parent_id == decision_id("account.commands", 3, 120)
