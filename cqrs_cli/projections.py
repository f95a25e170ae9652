"""What programs that read the tables of projections use; see docs/projections.md."""

from cqrs_cli.following.projections.waiting import wait_for_event as wait

__all__ = ["wait"]
