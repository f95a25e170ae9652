"""One cluster for all tests here, and one run that serves on it throughout."""

from collections.abc import Iterator

import pytest

from tests.scenarios.cluster.brokers import Brokers, three_brokers
from tests.scenarios.cluster.service import Service
from tests.support.project import new_project


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three of them, whole at the start of each test that uses `service`."""
    with three_brokers(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="session")
def serving(brokers: Brokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A run of bank accounts on four partitions, whose topics `cqrs init` has made."""
    project = new_project(tmp_path_factory.mktemp("bank"), brokers.connection, "lost.")
    project.cqrs("init", "bank_account")
    service = Service(project, project.harness(partitions=4))
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture
def service(brokers: Brokers, serving: Service) -> Iterator[Service]:
    """The run, at work. Afterwards the brokers are made whole, and nothing of what it did may be wrong."""
    with serving.flowing():
        serving.goes_on()
    yield serving
    brokers.heal()
