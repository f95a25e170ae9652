"""One cluster for all tests of this folder, and one run that serves on it throughout."""

from collections.abc import Iterator

import pytest

from tests.scenarios.cluster.brokers import Brokers, three_brokers
from tests.scenarios.cluster.service import Service
from tests.support.project import new_project


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers. All of them are in sync at the start of each test that uses `service`."""
    with three_brokers(tmp_path_factory.mktemp("cluster")) as brokers:
        yield brokers


@pytest.fixture(scope="session")
def running_service(brokers: Brokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A run of bank accounts on four partitions. `cqrs init` created their topics."""
    project = new_project(tmp_path_factory.mktemp("bank"), brokers.connection, "lost.")
    project.cqrs("init", "bank_account")
    service = Service(project, project.harness(partitions=4))
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture
def service(brokers: Brokers, running_service: Service) -> Iterator[Service]:
    """A run that decides. After the test the brokers are healed, and the run's records are verified."""
    with running_service.sending_commands():
        running_service.await_progress()
    yield running_service
    brokers.heal()
