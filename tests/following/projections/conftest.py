from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import ROOT
from tests.support.mariadb import MariaDb, mariadb, server_programs
from tests.support.postgres import Postgres, binaries, postgres

if TYPE_CHECKING:
    from cqrs_cli.following.projections.databases.address import DatabaseAddress
    from cqrs_cli.settings.settings import Settings

#: Without the extra `projections` these tests are not collected.
collect_ignore_glob = [] if find_spec("sqlalchemy") else ["test_*.py"]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """The only PostgreSQL server of the test run."""
    pytest.importorskip("psycopg", reason="needs the extra `projections`")
    if binaries() is None:
        pytest.skip("no PostgreSQL here (Debian: apt-get install postgresql)")
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDb]:
    """The only MariaDB server of the test run."""
    pytest.importorskip("pymysql", reason="needs the extra `projections`")
    if server_programs() is None:
        pytest.skip("no MariaDB here (Debian: apt-get install mariadb-server-core mariadb-client-core)")
    with mariadb() as server:
        yield server


@pytest.fixture
def settings(prefix: str) -> "Settings":
    """The settings of a project with the examples. Its topics have their own prefix."""
    from cqrs_cli.settings.settings import load_settings

    return load_settings({"topic_prefix": prefix}, ROOT)


@pytest.fixture(
    params=[
        "sqlite_database",
        *(
            pytest.param(name, marks=pytest.mark.database)
            for name in ("postgres_database", "mariadb_database", "duckdb_database")
        ),
    ]
)
def database(request: pytest.FixtureRequest) -> "DatabaseAddress":
    """An empty database of each kind."""
    address: DatabaseAddress = request.getfixturevalue(request.param)
    return address


@pytest.fixture
def sqlite_database(tmp_path: Path) -> "DatabaseAddress":
    """An empty SQLite database."""
    from cqrs_cli.following.projections.database import parse_database

    return parse_database("sqlite:///read.db", tmp_path)


@pytest.fixture
def postgres_database(postgres_server: Postgres, tmp_path: Path) -> "DatabaseAddress":
    """An empty PostgreSQL database."""
    from cqrs_cli.following.projections.database import parse_database

    return parse_database(postgres_server.make_database(), tmp_path)


@pytest.fixture
def mariadb_database(mariadb_server: MariaDb, tmp_path: Path) -> "DatabaseAddress":
    """An empty MariaDB database."""
    from cqrs_cli.following.projections.database import parse_database

    return parse_database(mariadb_server.make_database(), tmp_path)


@pytest.fixture
def duckdb_database(tmp_path: Path) -> "DatabaseAddress":
    """An empty DuckDB database."""
    from cqrs_cli.following.projections.database import parse_database

    pytest.importorskip("duckdb_sqlalchemy", reason="needs the extra `duckdb`")
    return parse_database("duckdb:///read.duckdb", tmp_path)
