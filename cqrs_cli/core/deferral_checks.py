"""The checks that depend on deferred commands: ids of deferred commands, `deferredfrom`, and `notbefore`."""

from cqrs_cli.core.checks import check_expiry, check_id
from cqrs_cli.core.context import BatchContext
from cqrs_cli.core.decision_in_progress import DecisionInProgress
from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.command import CommandEnvelope
from cqrs_cli.core.messages.outcome import Original
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.stored import DedupEntry


def check_original(
    deferrals: Deferrals,
    case: DecisionInProgress,
    envelope: CommandEnvelope,
    first: DedupEntry | None,
    expired: int,
) -> Original | None:
    """Check 5: return the first decision on the command's id, also of a deferred command of any age; else None.

    `first` is the remembered decision on the id. A resubmitted command has an entry in its case; without an entry, a
    client set `deferredfrom`. Raises `CheckFailed`.
    """
    entry, mark = case.entry, case.mark
    assert isinstance(mark, int)
    if entry is not None:
        if entry.cancelled:
            raise CheckFailed(Reason.CANCELLED, "it was cancelled while it was deferred")
        if (waits := deferrals.wait_on(case.record, entry)) is not None:
            raise waits
        return None
    if (waiting := deferrals.of_id(envelope.subject, envelope.id)) is not None:
        return _of_waiting(waiting, mark)
    original = check_id(first, mark, expired)
    if original is None and envelope.deferredfrom is not None:
        raise CheckFailed(
            Reason.NOT_RELEASED, "only an owner gives deferredfrom: send it without, and without notbefore"
        )
    return original


def _of_waiting(entry: Deferral, mark: int) -> Original:
    original = Original(entry.offset, "deferred", entry.version, 0, entry.inherited_from)
    if mark == entry.fingerprint:
        return original
    raise CheckFailed(
        Reason.ID_REUSED,
        f"the id is of another command, deferred at offset {entry.offset}",
        original=original,
    )


def check_time(context: BatchContext, case: DecisionInProgress, envelope: CommandEnvelope) -> None:
    """Check 9: defer a command whose `notbefore` is after the record's time; raises `CheckFailed` (NOT_YET, EXPIRED).

    The `notbefore` of a resubmitted command (its case has an entry) is not checked again, because the broker's clock
    may lag the owner's clock a little. Check 5 has limited that lag.
    """
    if envelope.notbefore is not None and case.entry is None:
        assert isinstance(case.mark, int)
        moment, mark = envelope.notbefore, case.mark
        waits = context.deferrals.wait(case.record, envelope, moment, mark, case.version)
        if waits is not None:
            raise waits
    check_expiry(envelope.expirytime, case.record.timestamp, context.now)
