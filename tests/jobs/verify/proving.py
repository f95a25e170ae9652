"""Proving and altering the topics of a harness."""

from collections.abc import Callable
from typing import Any

from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.plan import shard_folder
from cqrs_cli.jobs.verify.driver import Verified, plan_verify, verify_here
from tests.support.harness import TopicHarness
from tests.support.rewriting import edited


def verified(harness: TopicHarness, machine: str | None = None) -> Verified:
    shards = None
    if machine is not None:
        shards = shard_folder(harness.folder / machine, harness.topics)
    return verify_here(plan_verify(harness.connection, harness.topics, harness.settings, shards))


def change(at: int, data: dict[str, Any] | None = None, **members: Any) -> Callable[[list[Record]], None]:
    def edit(log: list[Record]) -> None:
        log[at] = edited(log[at], data, **members)

    return edit


def kinds(harness: TopicHarness) -> set[str]:
    """The topics in which something is wrong."""
    return {violation.kind for violation in verified(harness).violations}
