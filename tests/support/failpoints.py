"""The failpoints that owners pass for all commands.

Owners pass the other failpoints only with checkpoints, deferred commands or personal fields (`tests/deciding` kills
there), or during a repartitioning (`tests/scenarios/test_repartitioned_crashes.py` and `test_repartitioning_crashes.py`
kill there).
"""

from cqrs_cli.observer import POINTS

_CONDITIONAL_PREFIXES = (
    *("checkpoint.", "resubmit.", "split.", "import.", "forward.", "repartition.", "upkeep."),
    *(
        "message",
        "owner.",
        "record.",
        "fold.",
        "batch.",
        "project.",
        "send.",
        "spans.",
    ),  # for other listeners than failpoints
)

ALWAYS_PASSED = tuple(point for point in POINTS if not point.startswith(_CONDITIONAL_PREFIXES))
