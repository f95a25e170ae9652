"""The failpoints that owners pass whatever their commands are.

Others are passed only where there are checkpoints, deferred commands or personal fields (`tests/deciding` kills there),
or where partitions grow (`tests/scenarios/test_grown_crashes.py` and `test_grown_operators.py` do).
"""

from cqrs_cli.failpoints import POINTS

_SOMETIMES = ("checkpoint.", "again.", "split.", "adopt.", "forward.", "grow.", "upkeep.")

ALWAYS_PASSED = tuple(point for point in POINTS if not point.startswith(_SOMETIMES))
