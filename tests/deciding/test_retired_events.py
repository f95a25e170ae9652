"""Owners whose code has lost an event stop before they decide, and continue once the code has an upcaster."""

from pathlib import Path

import pytest

from cqrs_cli.errors import ContradictionError
from cqrs_cli.ownership.timing import Timing
from tests.support import AGGREGATES
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_for_error

pytestmark = pytest.mark.kafka

#: Inconsistencies that may pass are not believed before the test fails.
LONG_TIMEOUTS = Timing(inconsistency_timeout=600.0, out_of_sync_timeout=600.0)

UPCASTER = "initial=Counter(), upcasters={'Incremented': lambda old: Counted(old['by'])})"


def harness_with_renamed_event(
    counters: TopicHarness, prefix: str, folder: Path, package: str, decider_end: str
) -> TopicHarness:
    """Return the same topics, with code in which `Incremented` is called `Counted`."""
    source = (AGGREGATES / "counter.py").read_text()
    source = source.replace("Incremented", "Counted").replace("initial=Counter())", decider_end)
    (folder / package).mkdir()
    (folder / package / "__init__.py").touch()
    (folder / package / "counter.py").write_text(source)
    return TopicHarness(counters.connection, prefix, counters.folder, package=package, root=folder)


@pytest.mark.covers("state-is-events", "nothing-skipped")
def test_lost_event_stops_before_deciding(counters: TopicHarness, prefix: str, tmp_path: Path) -> None:
    """An owner whose code has lost an event stops before it decides.

    The shard of the old code is up to date, so recovery would read only newer events. The error comes at once, because
    waiting cannot change the event.
    """
    counters.send(*increment_commands(3))
    run_plan(counters.plan())
    counters.send(*increment_commands(2, first=3))
    error = run_plan_for_error(
        harness_with_renamed_event(counters, prefix, tmp_path, "renamed", "initial=Counter())").plan(
            timing=LONG_TIMEOUTS
        )
    )
    assert isinstance(error, ContradictionError)
    assert "offset 0: the code knows no event counter.Incremented: deploy the code that wrote it" in str(
        error
    )
    assert len(counters.outcomes()) == 3
    harness_with_upcaster = harness_with_renamed_event(counters, prefix, tmp_path, "upcast", UPCASTER)
    run_plan(harness_with_upcaster.plan())
    assert [outcome.data.version for outcome in counters.outcomes()] == [1, 2, 3, 4, 5]
    assert harness_with_upcaster.violations("state") == []


@pytest.mark.covers("state-is-events", "nothing-skipped")
def test_lost_upcaster_stops_before_deciding(counters: TopicHarness, prefix: str, tmp_path: Path) -> None:
    counters.send(*increment_commands(3))
    run_plan(counters.plan())
    run_plan(harness_with_renamed_event(counters, prefix, tmp_path, "upcast", UPCASTER).plan())
    counters.send(*increment_commands(2, first=3))
    error = run_plan_for_error(
        harness_with_renamed_event(counters, prefix, tmp_path, "renamed", "initial=Counter())").plan()
    )
    assert isinstance(error, ContradictionError) and "or give it an upcaster" in str(error)
    assert len(counters.outcomes()) == 3
