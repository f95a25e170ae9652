"""The failpoints that owners pass for all commands.

Owners pass the other failpoints only with checkpoints, deferred commands or personal fields (`tests/deciding` kills
there), or during a repartitioning (`tests/scenarios/test_repartitioned_crashes.py` and `test_repartitioning_crashes.py`
kill there).
"""

from cqrs_cli.failpoints import POINTS

_CONDITIONAL_PREFIXES = ("checkpoint.", "again.", "split.", "adopt.", "forward.", "grow.", "upkeep.")

ALWAYS_PASSED = tuple(point for point in POINTS if not point.startswith(_CONDITIONAL_PREFIXES))
