"""The rules for an outcome without its command: status, reason and members must match."""

from collections.abc import Iterator

from msgspec import UNSET

from cqrs_cli.core.messages.expected_version import parse_expected
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, Verdict
from cqrs_cli.core.messages.reasons import REMEMBERED, STATUSES, Reason

#: Reasons of checks 1 to 4, which owners make before they look up the aggregate. The outcome's version is then 0.
REASONS_BEFORE_STATE_LOOKUP = {reason.name for reason in Reason if reason.check <= 4}
#: Reasons of checks 1 and 2: the command could not be read.
REASONS_OF_UNREADABLE = {reason.name for reason in Reason if reason.check <= 2}
#: Reasons of check 10: the aggregate is not at the expected version.
VERSION_REASONS = {reason.name for reason in Reason if reason.check == 10}
#: Status → its possible reasons.
REASONS = {status: {reason.name for reason in Reason if reason.status == status} for status in STATUSES}


def check_verdict(verdict: Verdict, reserved: bool) -> Iterator[str]:
    """Yield each contradiction within a verdict. `reserved`: the command is built in, such as `cqrs.Cancel`."""
    status, reason = verdict.status, verdict.reason or None
    if status not in REASONS:
        yield f"has the status {status!r}, which is unknown"
        return
    if (reason in REASONS[status]) if REASONS[status] else (reason is None):
        if not (reserved and reason == "NOT_FOUND"):
            yield from _check_expected_version(verdict)
    else:
        yield f"is {status} with the reason {reason}"
    if (status == "accepted") != (verdict.events > 0):
        yield f"is {status} with {verdict.events} events"
    if verdict.version < verdict.events:
        yield f"leads to version {verdict.version} with {verdict.events} events"
    if (verdict.original is not UNSET) != (status == "duplicate" or reason == "ID_REUSED"):
        yield f"is {status}{f' ({reason})' if reason else ''} {_with_or_without(verdict.original)} a first decision"
    if verdict.original is not UNSET and verdict.original.status not in (*REMEMBERED, "deferred"):
        yield f"points to a decision that was {verdict.original.status}, which is not remembered"
    if (verdict.decidedat is not UNSET) != (reason == "EXPIRED"):
        yield f"is {status} {_with_or_without(verdict.decidedat)} a decidedat"
    has_attempt = status == "deferred" and reason != "MOVED"
    if ((verdict.due is not UNSET), (verdict.attempt is not UNSET)) != (status == "deferred", has_attempt):
        yield (
            f"is {status} {_with_or_without(verdict.due)} a time when it is due, {_with_or_without(verdict.attempt)} "
            f"an attempt"
        )
    if (verdict.movedto is not UNSET) != (reason == "MOVED"):
        yield f"is {reason or status} {_with_or_without(verdict.movedto)} a partition to which its key has moved"
    if verdict.retryable is not (UNSET if reason is None else _is_retryable(reason)):
        yield f"says retryable {verdict.retryable} of {reason or status}"
    if (verdict.message is UNSET) != (reason is None):
        yield f"is {reason or status} {_with_or_without(verdict.message)} a message"
    if (verdict.code is not UNSET) != (reason == "BUSINESS_RULE"):
        yield f"is {reason or status} {_with_or_without(verdict.code)} a code"
    if verdict.fingerprint is UNSET and reason not in REASONS_OF_UNREADABLE | {"TOO_LARGE"}:
        yield "has no fingerprint"


def check_names(outcome: OutcomeEnvelope) -> Iterator[str]:
    """Check the members that identify the command: subject, causationid, correlationid, expected version and type.

    An outcome has these members if its command was read: then it also has a fingerprint. An outcome `KEY_MISMATCH` may
    lack them, because the command's key may not be UTF-8.
    """
    data, reason = outcome.data, outcome.data.reason or None
    members = {name: getattr(outcome, name) for name in ("subject", "causationid", "correlationid")}
    present = [name for name, text in members.items() if text]
    if data.expected is not UNSET and (data.fingerprint is UNSET or reason in REASONS_BEFORE_STATE_LOOKUP):
        yield f"is {reason or data.status}, but says that version {data.expected} was expected"
    if data.fingerprint is UNSET:
        if present:
            yield f"is {reason or data.status}, but names {' and '.join(present)} of a command that was not read"
        if outcome.type != "cqrs.failed":
            yield f"has the type {outcome.type!r} of a command that was not read"
    elif reason in REASONS_OF_UNREADABLE:
        yield f"is {reason}, but has the fingerprint of a command that was read"
    elif len(present) < len(members) and (present or reason != "KEY_MISMATCH"):
        missing = [name for name in members if name not in present]
        yield f"is {reason or data.status}, but does not name the {' and '.join(missing)} of its command"


def _check_expected_version(verdict: Verdict) -> Iterator[str]:
    """Check that the aggregate was at the expected version. For `VERSION_REASONS`, check that it was not."""
    text, reason = verdict.expected, verdict.reason or None
    if text is UNSET:
        if reason in VERSION_REASONS:
            yield f"is {reason} without an expected version"
        return
    try:
        mismatch = parse_expected(text).mismatch(verdict.version - verdict.events)
    except ValueError:
        # Duplicates, failed commands and commands with a reused id may have an invalid version.
        if verdict.status not in ("duplicate", "failed") and reason != "ID_REUSED":
            yield f"is {verdict.status} with the expected version {text!r}, which is invalid"
        return
    if reason == "INVALID_EXPECTED_VERSION":
        yield f"is {reason}, but {text!r} is a valid expected version"
    actual = mismatch[0].name if mismatch is not None else None
    checked = verdict.status in ("accepted", "unchanged") or reason in {"BUSINESS_RULE"} | VERSION_REASONS
    if checked and actual != (reason if reason in VERSION_REASONS else None):
        before = verdict.version - verdict.events
        yield f"is {reason or verdict.status}, expecting version {text} of an aggregate at version {before}"


def _is_retryable(reason: str) -> bool:
    known_reason = Reason.__members__.get(reason)
    return known_reason is not None and known_reason.retryable


def _with_or_without(member: object) -> str:
    return "without" if member is UNSET else "with"
