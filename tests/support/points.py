"""The failpoints that owners pass whatever their commands are.

Others are passed only where there are checkpoints or deferred commands: `tests/deciding` kills there.
"""

from cqrs_cli.failpoints import POINTS

ALWAYS_PASSED = tuple(point for point in POINTS if not point.startswith(("checkpoint.", "again.")))
