"""The public names for projections, and for programs that read the tables; see docs/projections.md."""

from cqrs_cli.following.projections.upserting import upsert
from cqrs_cli.following.projections.waiting import wait_for_event as wait

__all__ = ["upsert", "wait"]
