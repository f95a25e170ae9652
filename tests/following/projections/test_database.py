from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.following.projections.database import parse_database, url_without_password
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.known import dialect_of


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("orders.db", "--to: not a database URL: 'orders.db'"),
        ("postgresql://u:secret@h/d", "a password is not accepted on the command line"),
        ("mysql://h/d", "mysql is not supported"),
        ("mariadb://u:secret@h/d", "a password is not accepted on the command line"),
        ("mariadb://h", "the URL of MariaDB needs the name of a database"),
        ("sqlite://", "SQLite needs a file"),
        ("sqlite:///:memory:", "SQLite needs a file"),
    ],
)
def test_unusable_databases_are_refused(tmp_path: Path, url: str, complaint: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_database(url, tmp_path)
    assert complaint in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_files_are_below_the_root(tmp_path: Path) -> None:
    database = parse_database("sqlite:///data/x.db", tmp_path)
    assert url_without_password(database) == f"sqlite:///{tmp_path}/data/x.db"
    assert (
        dialect_of(database).shadow_address(database, "mine").url
        == f"sqlite:///{tmp_path}/data/x.db-mine-new"
    )


def test_postgres_is_reached_by_psycopg(tmp_path: Path) -> None:
    database = parse_database("postgresql://u@h/d", tmp_path)
    assert database.url == "postgresql+psycopg://u@h/d"
    assert dialect_of(database).shadow_address(database, "mine") == DatabaseAddress(
        database.url, "cqrs_new_mine"
    )


def test_mariadb_is_reached_by_pymysql(tmp_path: Path) -> None:
    database = parse_database("mariadb://u@h/d", tmp_path)
    assert database.url == "mariadb+pymysql://u@h/d"
    assert dialect_of(database).shadow_address(database, "mine") == DatabaseAddress(
        database.url, "d-mine-new"
    )
    with pytest.raises(ConfigurationError, match="more than 64 characters"):
        dialect_of(database).shadow_address(database, "m" * 59)
