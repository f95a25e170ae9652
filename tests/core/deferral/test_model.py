"""Every interleaving of a few steps: each deferred command ends with one final outcome, and each rule is needed."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.outcome import DeferredTarget
from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.deciding import deferred_fold as fold
from cqrs_cli.deciding.broker_clock import BrokerClock
from tests.core.deferral.world import SCENARIOS, TOPIC, World, begun, steps

#: The most commands in the longest scenario. More commands mean that one is resubmitted forever.
MOST = 9


def decided_early(world: World) -> bool:
    """True if a command was decided too early by the broker's timestamp, beyond the tolerance."""
    dues: dict[str | None, int] = {}
    early = False
    for one, (_, timestamp) in zip(world.read(), world.outcomes, strict=True):
        if isinstance(one.data.due, str):
            dues[one.causationid] = parse_timestamp(one.data.due)
        elif isinstance(one.data.deferredfrom, str) and one.data.reason != "CANCELLED":
            early = early or timestamp < dues.get(one.causationid, 0) - world.rules.limits.clock_tolerance
    return early


def wrong(world: World) -> str:
    """Return the fault of a world; empty without a fault."""
    if len(world.commands) > MOST:
        return "a command is said again for ever"
    read = world.read()
    kept = [one for one in read if one.data.status in ("accepted", "unchanged", "rejected")]
    finals = Counter(one.causationid for one in kept)
    if finals and max(finals.values()) > 1:
        return "a command is decided twice"
    told = {one.causationid: one for one in kept}
    stop, x = told.get("stop"), told.get("x")
    stopped = stop is not None and stop.data.status == "unchanged"
    if stop and stopped and stop.type.startswith("cqrs.Cancel") and x and x.data.reason != "CANCELLED":
        return "a cancelled command is decided"
    if not stopped and decided_early(world):
        return "a command is decided before it is due"
    deferred = {one.causationid for one in read if one.data.status == "deferred"}
    if world.is_over() and deferred - told.keys():
        return "a deferred command is lost"
    return ""


def explored(scenario: str) -> tuple[int, set[str]]:
    """Return the number of worlds of a scenario, and the faults that were found."""
    first = begun(scenario)
    seen, open_, found = {first}, [first], set[str]()
    while open_ and not found:
        for after in steps(open_.pop()):
            if after in seen:
                continue
            seen.add(after)
            if problem := wrong(after):
                found.add(problem)
            elif len(after.commands) <= MOST:
                open_.append(after)
    return len(seen), found


@pytest.mark.covers("deferred-once")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_deferred_commands_end_once(scenario: str) -> None:
    worlds, found = explored(scenario)
    assert found == set()
    assert worlds > 100


def _trusting(deferrals: Deferrals, offset: int) -> Deferral | None:
    """Take every record with `deferredfrom` as the owner's record."""
    entries = [*deferrals._view().resubmitted_entries(), *deferrals._view().due_entries(10**15, 9)]
    return next((one for one in entries if one.offset < offset and one.attempt), None)


def _forgetting(deferrals: Deferrals, subject: str, command_id: str) -> None:
    return None


def _ending(deferrals: Deferrals, subject: str, command_id: str, request: Any) -> DeferredTarget:
    """Let a cancel end the entry at once."""
    entry = Deferrals.find_by_command_id(deferrals, subject, request.id)
    if entry is not None:
        deferrals.remove_entry(entry)
    return DeferredTarget(request.id, 0)


def _unmarked(deferrals: Deferrals, entry: Deferral, offset: int) -> None:
    """Do not store the offset of the resubmitted command in the entry."""
    deferrals.set_entry(replace(entry, due=entry.due))


def _reparked(deferrals: Deferrals, entry: Deferral, offset: int) -> None:
    """Store the offset of the next record, as if k were guessed before the broker's report."""
    deferrals.set_entry(replace(entry, resubmitted_offset=offset + 1, resubmitted_topic=TOPIC))


def _unlearned(clock: BrokerClock, own: int, stamps: Any) -> None:
    """Ignore that the owner's clock is ahead."""


_NOTHING: Callable[..., Any] = lambda *_: {}  # noqa: E731

_NOTHING_WAITS: Callable[..., Any] = lambda *_: None  # noqa: E731

BROKEN: list[tuple[str, Any, str, Any]] = [
    ("two machines", fold, "entries_ended_by", _NOTHING),
    ("later copied", Deferrals, "find_resubmitted_at", _trusting),
    ("repeated", Deferrals, "find_by_command_id", _forgetting),
    ("cancelled", Deferrals, "cancel_or_release", _ending),
    ("lost", Deferrals, "set_resubmitted_offset", _unmarked),
    ("lost", Deferrals, "set_resubmitted_offset", _reparked),
    ("skipped", fold, "defer_lost_again", _NOTHING),
    ("lost", fold, "fold_deferred", _NOTHING),
    ("ahead", BrokerClock, "learn_from_timestamps", _unlearned),
    ("ahead", Deferrals, "defer_if_early", _NOTHING_WAITS),
]


@pytest.mark.parametrize(("scenario", "where", "name", "broken"), BROKEN)
def test_each_rule_is_needed(
    scenario: str, where: Any, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, broken)
    _, found = explored(scenario)
    assert found
