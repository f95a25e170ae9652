"""A project's embedded broker, of the oldest supported release and of the newest."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.embedded import broker as embedded
from cqrs_cli.kafka.embedded.release import EMBEDDED, KafkaRelease
from tests.support.project import Project, bank_command, new_project
from tests.support.releases import OLDEST
from tests.support.sampling import sample_cases

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def project_folder(tmp_path: Path) -> Iterator[Path]:
    """A project's folder, whose broker is stopped after the test."""
    try:
        yield tmp_path
    finally:
        embedded.stop_broker(tmp_path)


def new_bank(project_folder: Path, release: KafkaRelease) -> Project:
    """Return a project with a broker of this release, and ten undecided commands."""
    broker = embedded.start_broker(project_folder, release=release, require_login=False)
    assert (broker.started, broker.version) == (True, release.version)
    project = new_project(project_folder, Connection(broker.bootstrap_server), "")
    project.cqrs("init", "bank_account")
    project.send([bank_command("Open", f"a-{n}", {"owner": "ann"}) for n in range(10)])
    return project


def check_decided(project: Project) -> None:
    assert project.json("run", "bank_account", "--once")["accepted"] == 10
    verified = project.json("verify", "bank_account", "--state")
    assert (verified["commands"], verified["violations"]) == (10, [])


@pytest.mark.parametrize(
    "release", sample_cases([OLDEST, EMBEDDED], OLDEST), ids=lambda release: release.version
)
def test_commands_are_decided(project_folder: Path, release: KafkaRelease) -> None:
    check_decided(new_bank(project_folder, release))


@pytest.mark.nightly
def test_newest_broker_reads_oldest_data(project_folder: Path) -> None:
    project = new_bank(project_folder, OLDEST)
    embedded.stop_broker(project_folder)
    newest_broker = embedded.start_broker(project_folder, release=EMBEDDED, require_login=False)
    assert (newest_broker.version, newest_broker.bootstrap_server) == (
        EMBEDDED.version,
        project.connection.bootstrap_server,
    )
    check_decided(project)
