"""The check of a partition's committed offset and claim, for `cqrs verify`."""

from collections.abc import Mapping

from cqrs_cli.kafka.offsets import GroupCommit
from cqrs_cli.kafka.topics.topics import Kind
from cqrs_cli.ownership.claim import UNKNOWN_TOPIC, parse_claim
from cqrs_cli.proof.findings import Findings


def check_claim(
    findings: Findings, committed: GroupCommit, end: int, topic_ids: Mapping[Kind, str], partition_count: int
) -> None:
    """Add a violation if the committed offset is after `end`, the end of the commands. Add violations if the claim in
    the offset's metadata has other topic ids or another partition count than the present topics.
    """
    claim = parse_claim(committed.metadata)
    committed_offset = committed.offset or 0
    if committed_offset > end:
        findings.add_violation(
            "commands", committed_offset, f"is the committed offset, though the log ends at {end}"
        )
    if claim is None or claim.topic_id == UNKNOWN_TOPIC:
        return
    events_id, outcomes_id = claim.other_ids
    claimed_ids: dict[Kind, str] = {
        "commands": claim.topic_id,
        "events": events_id,
        "outcomes": outcomes_id,
        "deferred": claim.deferred_id,
    }
    for kind, claimed_id in claimed_ids.items():
        if claimed_id not in (UNKNOWN_TOPIC, topic_ids[kind]):
            problem = "is an offset of another topic: this one was created since"
            if kind != "commands":
                problem = f"was committed with another {kind} topic: this one was created since"
            findings.add_violation("commands", committed_offset, problem)
    if claim.partitions != partition_count:
        problem = f"was committed when there were {claim.partitions} partitions: now {partition_count}"
        findings.add_violation("commands", committed_offset, problem)
