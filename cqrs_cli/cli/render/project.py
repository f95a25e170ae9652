"""The result of a projection."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.result import Result
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.following.projections.plan import ProjectionProgress


def projection_result(name: str, revision: int, progress: "ProjectionProgress") -> Result:
    """Return the positions of a projection, and the number of projected events."""
    positions: dict[str, dict[str, int]] = {}
    for source, position in sorted(progress.positions.items()):
        positions.setdefault(source.topic, {})[str(source.partition)] = position
    document = {
        "projection": name,
        "revision": revision,
        "events": progress.events,
        "seconds": round(progress.seconds, 3),
        "lag": progress.lag,
        "positions": positions,
    }
    summary = (
        f"{counted(progress.events, 'event')} projected in {progress.seconds:.3g} s; "
        if progress.seconds
        else ""
    )
    text = f"{summary}{name} is at {progress.position:,} of {progress.position + progress.lag:,} records"
    return Result(document, text)
