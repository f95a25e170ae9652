"""Other runs of the same topics: `--once` lets one that is at work do it, and a takeover says from whom."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from cqrs_cli.kafka.offsets import Committed, committed_now
from cqrs_cli.owner.claim import TERMINAL, Claim, parse_claim
from cqrs_cli.owner.plan import Partition, Plan

#: Seconds without a decision after which a run that claims to be at work is not.
PATIENCE = 5.0

#: Seconds between two looks.
_INTERVAL = 0.25


def others_at_work(plan: Plan) -> dict[str, int]:
    """The runs whose claims on the plan's partitions have not ended, and how many commands each has decided there."""
    found: dict[str, int] = {}
    for claim in _open_claims(_committed(plan)).values():
        found[claim.run] = found.get(claim.run, 0) + claim.counts.commands
    return found


def left_to_decide(plan: Plan, note: Callable[[str], None], patience: float = PATIENCE) -> Plan | None:
    """The part of the plan of `--once` that no other run decides: its aggregates with commands below the targets.

    None if there are none any more. Waits for an aggregate that another run is deciding, until that is done or nothing
    has been decided for `patience` seconds. Raises `UnavailableError`.
    """
    assert plan.targets is not None
    moved: dict[str, tuple[object, float]] = {}  # positions of an aggregate, and since when they are that
    noted = False
    while True:
        left = {at: one for at, one in _committed(plan).items() if (one.offset or 0) < plan.targets[at]}
        names, at_work, deciding = {at.aggregate for at in left}, _open_claims(left), False
        for name in names:
            positions = [(at, one.offset) for at, one in left.items() if at.aggregate == name]
            if moved.get(name, ([], 0.0))[0] != positions:
                moved[name] = positions, time.monotonic()
            if all(at in at_work for at, _ in positions) and time.monotonic() - moved[name][1] < patience:
                deciding = True
        if not deciding:
            break
        if not noted:
            runs = ", ".join(sorted({claim.run for claim in at_work.values()}))
            note(f"run {runs} is at work: waiting until it has decided what is there")
            noted = True
        time.sleep(_INTERVAL)
    if not names:
        return None
    targets = {at: end for at, end in plan.targets.items() if at.aggregate in names}
    return replace(
        plan, topics={name: plan.topics[name] for name in plan.topics if name in names}, targets=targets
    )


def _committed(plan: Plan) -> dict[Partition, Committed]:
    return {
        Partition(name, number): one
        for name, found in plan.topics.items()
        for number, one in committed_now(plan.connection, found.topics, range(found.partitions)).items()
    }


def _open_claims(committed: Mapping[Partition, Committed]) -> dict[Partition, Claim]:
    """The claims of runs that have not ended, unless they were killed."""
    claims = {at: parse_claim(one.metadata) for at, one in committed.items()}
    return {at: claim for at, claim in claims.items() if claim is not None and claim.attempt != TERMINAL}
