"""The end of the decided commands of a partition.

An owner does not commit its position with every batch, because the outcomes contain it, too
(`deciding.session.OwnerSession.is_position_due`). So the group's offset may be older than the last decisions.
"""

from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.ownership.claim import Claim, first_valid_offset


def decided_end(
    log: PartitionLog, offset: int, claim: Claim | None, outcomes: tuple[int, int], commands_end: int
) -> int:
    """Return the offset of the first undecided command: the later of the group's `offset` and the offset after the
    command of the last visible outcome. `claim`: the claim in the metadata of the group's offset. `outcomes`: (start,
    high watermark) of the outcomes. `commands_end`: the high watermark of the commands.

    The last outcome is ignored if it is before an accepted loss, if its command is beyond the log's end, or if it
    cannot be read. Step 3 of the owner protocol checks such an outcome.
    """
    last_outcome = log.last_record("outcomes", *outcomes)
    accepted_loss = None if claim is None else claim.accepted
    if last_outcome is None or last_outcome.offset < first_valid_offset(accepted_loss, "outcomes"):
        return offset
    try:
        end = read_outcome(last_outcome.value).data.offset + 1
    except ValueError:
        return offset
    return end if offset < end <= commands_end else offset
