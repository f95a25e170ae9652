"""`cqrs send --wait-for` waits until queries see the rows of the command's events."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from cqrs_cli import registry
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.read_model_wait import ReadModelWait
from cqrs_cli.errors import NoOutcomeError
from cqrs_cli.following.projections.database import parse_database
from cqrs_cli.following.projections.load import load_projection
from cqrs_cli.following.projections.prepare import prepare_projection, stable_ends
from cqrs_cli.following.projections.runner import project_partitions
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.settings.settings import load_settings
from tests.cli.conftest import Cqrs
from tests.support import AGGREGATES
from tests.support.simple_owner import SimpleOwner

pytestmark = pytest.mark.kafka
OPEN = ("send", "bank_account", "acc-42", "Open", "owner=Ada", "--wait-for", "opened")


class ProjectionRunner:
    """The projection `opened` of the project in a folder."""

    def __init__(self, folder: Path, connection: Connection, prefix: str) -> None:
        settings = load_settings({"topic_prefix": prefix}, folder)
        self.projection = load_projection("opened", folder, "aggregates")
        database = parse_database("sqlite:///projections.db", folder)
        self.plan = prepare_projection(settings, connection, self.projection, database, print).live
        self.file = folder / "projections.db"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Project new events while the block lasts."""
        is_stopped = threading.Event()

        def project() -> None:
            project_partitions(
                self.plan,
                self.plan.sources,
                self.projection,
                print,
                lambda stop_request: stop_request.set() if is_stopped.is_set() else None,
            )

        thread = threading.Thread(target=project)
        thread.start()
        try:
            yield
        finally:
            is_stopped.set()
            thread.join()

    def catch_up(self) -> None:
        plan = replace(self.plan, end_offsets=stable_ends(self.plan))
        project_partitions(plan, plan.sources, self.projection, print)

    def rows(self) -> list[tuple[str, int]]:
        engine = create_engine(f"sqlite:///{self.file}")
        with engine.connect() as db:
            rows = [
                (str(row.aggregate_id), int(row.times)) for row in db.execute(text("SELECT * FROM opened"))
            ]
        engine.dispose()
        return rows


@pytest.fixture
def cqrs_with_projection(cqrs_on_broker: Cqrs) -> Cqrs:
    """`cqrs` in a project with a projection that counts events."""
    assert cqrs_on_broker("add", "opened", "--projection", "bank_account").status == 0
    return cqrs_on_broker


def test_query_sees_own_writes(
    cqrs_with_projection: Cqrs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    bank_account = registry.load("bank_account", "aggregates", AGGREGATES.parent)
    owner = SimpleOwner(connection, Topics("bank_account", prefix), bank_account)
    runner = ProjectionRunner(tmp_path, connection, prefix)
    with owner.decide_in_background():
        with runner.running():
            assert cqrs_with_projection(*OPEN).status == 0
            assert runner.rows() == [("acc-42", 1)]
        assert cqrs_with_projection("send", "bank_account", "acc-42", "Close", "--wait").status == 0
        flags = {"bootstrap_server": connection.bootstrap_server, "topic_prefix": prefix}
        read_model_wait = ReadModelWait(
            Cli(flags=flags), "bank_account", "opened", "sqlite:///projections.db"
        )
        with pytest.raises(
            NoOutcomeError, match=r"is not projected after 0 s; check that `cqrs project` runs"
        ):
            read_model_wait.wait("acc-42", 0.0)
        assert cqrs_with_projection(*OPEN, "--id", "refused").status == 7
    runner.catch_up()
    read_model_wait.wait("acc-42", 0.0)
    assert runner.rows() == [("acc-42", 1)]


def test_unknown_projections_send_nothing(cqrs_with_projection: Cqrs) -> None:
    result = cqrs_with_projection(*OPEN)
    assert result.status == 3
    assert "no position of projection 'opened'" in result.err
    assert cqrs_with_projection(*OPEN, "--to", "mysql://h/d").status == 2
    assert cqrs_with_projection("tail", "bank_account", "commands").out == ""
