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


def check_duplicate(
    deferrals: Deferrals,
    decision: DecisionInProgress,
    envelope: CommandEnvelope,
    first_decision: DedupEntry | None,
    window_start: int,
) -> Original | None:
    """Check 5 (docs/messages.md): return the first decision on the command's id, or None if the id is new.

    `first_decision` is the stored decision on the id. If a command with this id is still deferred, its deferral is the
    first decision, even if it is older than the dedup window. `decision.deferral` is the entry of a resubmitted
    command, else None. So a command with `deferredfrom`, but without `decision.deferral`, comes from a client: if its
    id is new, it fails with NOT_RELEASED. Raises `CheckFailed`.
    """
    deferral, fingerprint = decision.deferral, decision.fingerprint
    assert isinstance(fingerprint, int)
    if deferral is not None:
        if deferral.cancelled:
            raise CheckFailed(Reason.CANCELLED, "it was cancelled while it was deferred")
        if (failure := deferrals.defer_if_early(decision.record, deferral)) is not None:
            raise failure
        return None
    if (deferral_of_id := deferrals.find_by_command_id(envelope.subject, envelope.id)) is not None:
        return _original_of_deferral(deferral_of_id, fingerprint)
    original = check_id(first_decision, fingerprint, window_start)
    if original is None and envelope.deferredfrom is not None:
        raise CheckFailed(
            Reason.NOT_RELEASED,
            "only an owner may send deferredfrom: send the command without deferredfrom and notbefore",
        )
    return original


def _original_of_deferral(entry: Deferral, fingerprint: int) -> Original:
    original = Original(entry.offset, "deferred", entry.version, 0, entry.inherited_from_partition)
    if fingerprint == entry.fingerprint:
        return original
    raise CheckFailed(
        Reason.ID_REUSED,
        f"the id belongs to another command, deferred at offset {entry.offset}",
        original=original,
    )


def check_due_and_expiry(
    context: BatchContext, decision: DecisionInProgress, envelope: CommandEnvelope
) -> None:
    """Check 9 (docs/messages.md): raise `CheckFailed` for a command that is not due yet, or has expired.

    A command whose `notbefore` is after the record's time is deferred (NOT_YET), unless it is too large for that
    (TOO_LARGE). If `expirytime` has passed, the reason is EXPIRED.

    The `notbefore` of a resubmitted command (`decision.deferral` is set) is not checked again: the broker's clock may
    be a little behind the owner's clock. If it is too far behind, check 5 has already deferred the command again.
    """
    if envelope.notbefore is not None and decision.deferral is None:
        assert isinstance(decision.fingerprint, int)
        notbefore, fingerprint = envelope.notbefore, decision.fingerprint
        failure = context.deferrals.defer_until(
            decision.record, envelope, notbefore, fingerprint, decision.version
        )
        if failure is not None:
            raise failure
    check_expiry(envelope.expirytime, decision.record.timestamp, context.now)
