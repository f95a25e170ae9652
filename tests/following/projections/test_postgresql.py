"""PostgreSQL."""

import pytest

from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.contract import DatabaseContract
from tests.following.projections.contract.server import ServerContract
from tests.support.postgres import Postgres

pytestmark = pytest.mark.database


class TestPostgres(DatabaseContract, ServerContract):
    @pytest.fixture
    def database(self, postgres_database: DatabaseAddress) -> DatabaseAddress:
        return postgres_database

    @pytest.fixture
    def server(self, postgres_server: Postgres) -> Postgres:
        return postgres_server
