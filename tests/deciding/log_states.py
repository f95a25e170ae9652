"""Log states and claims for tests without a broker."""

from typing import Any

from msgspec.structs import replace

from cqrs_cli.deciding.position import LogState
from cqrs_cli.ownership.claim import Claim


def claim(**members: Any) -> Claim:
    return replace(Claim(1, "r", 0, 0, 1, "id", 4, other_ids=("e", "o")), **members)


def log(last: int | None = 9, committed: int | None = 10, **members: Any) -> LogState:
    """Return a log of commands 0 to 19, of which 0 to 9 are decided and committed by default."""
    default_state = LogState(
        aggregate="bank",
        topic="t.bank.commands",
        partition=3,
        topic_id="id",
        other_ids=("e", "o"),
        partitions=4,
        start=0,
        end=20,
        last_outcome_command=last,
        last_outcome_matches=last is not None,
        outcomes_start=0,
        has_events=last is not None,
        last_event_command=last,
        last_event_matches=False,
        is_new=False,
        committed=committed,
        claim=claim(),
    )
    return default_state._replace(**members)
