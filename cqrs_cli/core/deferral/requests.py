"""`Cancel` and `Release`: reserved commands about a deferred command, which every aggregate accepts."""

from collections.abc import Mapping

from cqrs_cli.core.aggregate.decider import Command


class DeferralRequest(Command):
    """A reserved command about the deferred command with this id."""

    id: str


class Cancel(DeferralRequest):
    """Cancel the deferred command with this id: its final outcome is `rejected`, `CANCELLED`."""


class Release(DeferralRequest):
    """Decide the deferred command with this id now."""


#: Type on the wire → class.
REQUESTS: Mapping[str, type[DeferralRequest]] = {"cqrs.Cancel": Cancel, "cqrs.Release": Release}
