"""The result of a projection."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.result import Result
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.following.projections.plan import ProjectionProgress


def projected(name: str, revision: int, done: "ProjectionProgress") -> Result:
    """Return the positions of a projection, and the number of projected events."""
    positions: dict[str, dict[str, int]] = {}
    for source, position in sorted(done.positions.items()):
        positions.setdefault(source.topic, {})[str(source.partition)] = position
    document = {
        "projection": name,
        "revision": revision,
        "events": done.events,
        "seconds": round(done.seconds, 3),
        "lag": done.lag,
        "positions": positions,
    }
    worked = f"{counted(done.events, 'event')} projected in {done.seconds:.3g} s; " if done.seconds else ""
    text = f"{worked}{name} is at {done.position:,} of {done.position + done.lag:,} records"
    return Result(document, text)
