"""What projections, and programs that read their tables, use; see docs/projections.md."""

from cqrs_cli.following.projections.upserting import upsert
from cqrs_cli.following.projections.waiting import wait_for_event as wait

__all__ = ["upsert", "wait"]
