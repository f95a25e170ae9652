from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.following.projections.database import parse_database, shown
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.known import dialect_of


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("orders.db", "--to: not a URL of a database: 'orders.db'"),
        ("postgresql://u:secret@h/d", "a password is not accepted on the command line"),
        ("mysql://h/d", "mysql is not supported"),
        ("mariadb://u:secret@h/d", "a password is not accepted on the command line"),
        ("mariadb://h", "MariaDB needs the name of a database"),
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
    place = parse_database("sqlite:///data/x.db", tmp_path)
    assert shown(place) == f"sqlite:///{tmp_path}/data/x.db"
    assert dialect_of(place).beside(place, "mine").url == f"sqlite:///{tmp_path}/data/x.db-mine-new"


def test_postgres_is_reached_by_psycopg(tmp_path: Path) -> None:
    place = parse_database("postgresql://u@h/d", tmp_path)
    assert place.url == "postgresql+psycopg://u@h/d"
    assert dialect_of(place).beside(place, "mine") == DatabaseAddress(place.url, "cqrs_new_mine")


def test_mariadb_is_reached_by_pymysql(tmp_path: Path) -> None:
    place = parse_database("mariadb://u@h/d", tmp_path)
    assert place.url == "mariadb+pymysql://u@h/d"
    assert dialect_of(place).beside(place, "mine") == DatabaseAddress(place.url, "d-mine-new")
    with pytest.raises(ConfigurationError, match="more than 64 characters"):
        dialect_of(place).beside(place, "m" * 59)
