"""`cqrs project --once` ends if the database stays away."""

from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.projections.database import open_database, parse_database
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.prepare import retry_until_available
from tests.following.projections.projector_harness import (
    event_partition,
    make_plan,
    random_log,
    recent_orders,
    run_projectors,
)

pytest.importorskip("psycopg", reason="needs the extra `projections`")

LOGS = {event_partition(0): random_log(0, 3)}


@pytest.fixture
def plan_with_absent_database(tmp_path: Path) -> ProjectionPlan:
    """A plan with a server address without a listener."""
    return replace(make_plan(LOGS, parse_database("postgresql://u@127.0.0.1:1/d", tmp_path)), timeout=0.0)


def test_absent_database_ends_preparing(plan_with_absent_database: ProjectionPlan) -> None:
    engine, notes = open_database(plan_with_absent_database.database), list[str]()
    with pytest.raises(UnavailableError, match=r"no answer from postgresql.* for 0 s") as error:
        retry_until_available(engine.connect, plan_with_absent_database, notes.append)
    assert error.value.exit_code == 4


def test_absent_database_ends_projecting(plan_with_absent_database: ProjectionPlan) -> None:
    notes: list[str] = []
    (result,) = run_projectors(plan_with_absent_database, LOGS, recent_orders(), notes=notes)
    assert isinstance(result.error, UnavailableError)
    assert "no answer from postgresql" in notes[0] and "for 0 s" in str(result.error)
