"""The rules for an outcome alone, without its command: status, reason and members must fit each other."""

from collections.abc import Iterator

from msgspec import UNSET

from cqrs_cli.core.messages.expected_version import parse_expected
from cqrs_cli.core.messages.outcome import Verdict
from cqrs_cli.core.messages.reasons import STATUSES, Reason

#: Reasons of the checks 1 to 4. The owner has not looked up the aggregate before them: the outcome's version is 0.
BLIND = {reason.name for reason in Reason if reason.check <= 4}
#: Reasons of check 10: the expected version does not hold.
VERSION_REASONS = {reason.name for reason in Reason if reason.check == 10}
#: The reasons that go with each status.
REASONS = {status: {reason.name for reason in Reason if reason.status == status} for status in STATUSES}


def check_verdict(verdict: Verdict) -> Iterator[str]:
    """Yield every contradiction within a verdict."""
    status, reason = verdict.status, verdict.reason or None
    if status not in REASONS:
        yield f"has the status {status!r}, which is unknown"
        return
    if (reason in REASONS[status]) if REASONS[status] else (reason is None):
        yield from _expectation(verdict)
    else:
        yield f"is {status} with the reason {reason}"
    if (status == "accepted") != (verdict.events > 0):
        yield f"is {status} with {verdict.events} events"
    if verdict.version < verdict.events:
        yield f"leads to version {verdict.version} with {verdict.events} events"
    if (verdict.original is not UNSET) != (status == "duplicate" or reason == "ID_REUSED"):
        yield f"is {status}{f' ({reason})' if reason else ''} {_with(verdict.original)} a first decision"
    if (verdict.decidedat is not UNSET) != (reason == "EXPIRED"):
        yield f"is {status} {_with(verdict.decidedat)} a decidedat"
    if verdict.retryable is not (UNSET if reason is None else _is_retryable(reason)):
        yield f"says retryable {verdict.retryable} of {reason or status}"
    if verdict.fingerprint is UNSET and status != "failed":
        yield "has no fingerprint"


def _expectation(verdict: Verdict) -> Iterator[str]:
    """Check that the expected version held where it had to, and did not where it is the reason."""
    text, reason = verdict.expected, verdict.reason or None
    if text is UNSET:
        if reason in VERSION_REASONS:
            yield f"is {reason} without an expected version"
        return
    try:
        refusal = parse_expected(text).refusal(verdict.version - verdict.events)
    except ValueError:
        if (
            verdict.status not in ("duplicate", "failed") and reason != "ID_REUSED"
        ):  # the others were checked before
            yield f"is {verdict.status} with the expected version {text!r}, which is invalid"
        return
    if reason == "INVALID_EXPECTED_VERSION":
        yield f"is {reason}, and {text!r} is a valid expected version"
    found = refusal[0].name if refusal is not None else None
    checked = verdict.status in ("accepted", "unchanged") or reason in {"BUSINESS_RULE"} | VERSION_REASONS
    if checked and found != (reason if reason in VERSION_REASONS else None):
        before = verdict.version - verdict.events
        yield f"is {reason or verdict.status}, expecting version {text} of an aggregate at version {before}"


def _is_retryable(reason: str) -> bool:
    row = Reason.__members__.get(reason)
    return row is not None and row.retryable


def _with(member: object) -> str:
    return "without" if member is UNSET else "with"
