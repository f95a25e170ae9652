"""The checks that know of deferred commands: ids that wait, `deferredfrom`, and `notbefore`."""

from cqrs_cli.core.checks import check_expiry, check_id
from cqrs_cli.core.context import BatchContext
from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.command import CommandEnvelope
from cqrs_cli.core.messages.outcome import Original, WrittenVerdict
from cqrs_cli.core.messages.reasons import Reason, Refused
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import DedupEntry


def check_original(
    deferrals: Deferrals,
    entry: Deferral | None,
    envelope: CommandEnvelope,
    first: DedupEntry | None,
    mark: int,
    expired: int,
) -> Original | None:
    """Check 5, with both memories: deferred commands, however old, and decided ones. Raises `Refused`.

    `entry`: the deferral that resubmitted this record. Without it, `deferredfrom` was set by a client.
    """
    if entry is not None:
        if entry.cancelled:
            raise Refused(Reason.CANCELLED, "it was cancelled while it was deferred")
        return None
    if deferrals.active:
        waiting = deferrals.of_id(envelope.subject, envelope.id)
        if waiting is not None:
            return _of_waiting(waiting, mark)
    original = check_id(first, mark, expired)
    if original is None and envelope.deferredfrom is not None:
        raise Refused(
            Reason.NOT_RELEASED, "only an owner gives deferredfrom: send it without, and without notbefore"
        )
    return original


def _of_waiting(entry: Deferral, mark: int) -> Original:
    original = Original(entry.offset, "deferred", entry.version, 0)
    if mark == entry.fingerprint:
        return original
    raise Refused(
        Reason.ID_REUSED,
        f"the id is of another command, deferred at offset {entry.offset}",
        original=original,
    )


def check_time(
    context: BatchContext,
    record: Record,
    envelope: CommandEnvelope,
    verdict: WrittenVerdict,
    entry: Deferral | None,
) -> None:
    """Check 9: parks a command whose `notbefore` is to come by the record's time; raises `Refused` (NOT_YET, EXPIRED).

    A command that an owner has said again (`entry`) is due at any record time: the broker's clock may be behind.
    """
    if envelope.notbefore is not None and entry is None:
        assert isinstance(verdict.fingerprint, int)
        waits = context.deferrals.wait(
            record, envelope, envelope.notbefore, verdict.fingerprint, verdict.version
        )
        if waits is not None:
            raise waits
    check_expiry(envelope.expirytime, record.timestamp, context.now)
