"""`cqrs project --once` ends if the database stays away."""

from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.projections.database import open_database, parse_database
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.prepare import patiently
from tests.following.projections.feeding import plan, projected, random_log, recent_orders, source

pytest.importorskip("psycopg", reason="needs the extra `projections`")

LOGS = {source(0): random_log(0, 3)}


@pytest.fixture
def impatient(tmp_path: Path) -> ProjectionPlan:
    """A plan with a server address without a listener."""
    return replace(plan(LOGS, parse_database("postgresql://u@127.0.0.1:1/d", tmp_path)), patience=0.0)


def test_absent_database_ends_preparing(impatient: ProjectionPlan) -> None:
    engine, notes = open_database(impatient.place), list[str]()
    with pytest.raises(UnavailableError, match=r"no answer from postgresql.* for 0 s") as ended:
        patiently(engine.connect, impatient, notes.append)
    assert ended.value.exit_code == 4


def test_absent_database_ends_projecting(impatient: ProjectionPlan) -> None:
    notes: list[str] = []
    (result,) = projected(impatient, LOGS, recent_orders(), notes=notes)
    assert isinstance(result.error, UnavailableError)
    assert "no answer from postgresql" in notes[0] and "for 0 s" in str(result.error)
