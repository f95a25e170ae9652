"""The rules for an outcome alone, without its command: status, reason and members must fit each other."""

from collections.abc import Iterator

from msgspec import UNSET

from cqrs_cli.core.messages.expected_version import parse_expected
from cqrs_cli.core.messages.outcome import Verdict

#: By the owner, in this order: those of the first line before it has looked up the aggregate, whose version is 0 then.
BLIND = {"KEY_MISSING", "INVALID_ENVELOPE", "KEY_MISMATCH", "WRONG_PARTITION"}
VERSION_REASONS = {"VERSION_CONFLICT", "NOT_FOUND", "ALREADY_EXISTS"}
REASONS: dict[str, set[str]] = {
    "accepted": set(),
    "unchanged": set(),
    "rejected": VERSION_REASONS | {"BUSINESS_RULE", "EXPIRED", "ID_REUSED"},
    "duplicate": set(),
    "failed": BLIND
    | {"INVALID_PAYLOAD", "UNKNOWN_TYPE", "INVALID_EXPECTED_VERSION", "HANDLER_ERROR", "TOO_LARGE"},
}


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
    if verdict.retryable is not (UNSET if reason is None else reason == "VERSION_CONFLICT"):
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
    found = refusal[0] if refusal is not None else None
    checked = verdict.status in ("accepted", "unchanged") or reason in {"BUSINESS_RULE"} | VERSION_REASONS
    if checked and found != (reason if reason in VERSION_REASONS else None):
        before = verdict.version - verdict.events
        yield f"is {reason or verdict.status}, expecting version {text} of an aggregate at version {before}"


def _with(member: object) -> str:
    return "without" if member is UNSET else "with"
