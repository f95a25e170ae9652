from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, NoOutcomeError, UsageError
from cqrs_cli.following.projections.database import new_place, parse_database, shown
from cqrs_cli.following.projections.plan import DatabasePlace
from cqrs_cli.projections import wait
from tests.following.projections.feeding import (
    opened,
    plan,
    projected,
    random_log,
    recent_orders,
    source,
    take,
)


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
    assert new_place(place, "mine").url == f"sqlite:///{tmp_path}/data/x.db-mine-new"


def test_postgres_is_reached_by_psycopg(tmp_path: Path) -> None:
    place = parse_database("postgresql://u@h/d", tmp_path)
    assert place.url == "postgresql+psycopg://u@h/d"
    assert new_place(place, "mine") == DatabasePlace(place.url, "cqrs_new_mine")


def test_mariadb_is_reached_by_pymysql(tmp_path: Path) -> None:
    place = parse_database("mariadb://u@h/d", tmp_path)
    assert place.url == "mariadb+pymysql://u@h/d"
    assert new_place(place, "mine") == DatabasePlace(place.url, "d-mine-new")
    with pytest.raises(ConfigurationError, match="more than 64 characters"):
        new_place(place, "m" * 59)


def test_waiting_ends_with_the_event(place: DatabasePlace) -> None:
    logs = {source(0): random_log(0, 20)}
    loaded, made = recent_orders(), plan(logs, place)
    last = logs[source(0)][-1].offset
    with opened(place) as engine:
        with pytest.raises(ConfigurationError, match="no position of any projection on partition 0"):
            wait(engine, 0, last)
        take(made, loaded)
        with pytest.raises(
            NoOutcomeError, match=rf"recent_orders: event 0@{last} is not projected after 0.1 s"
        ):
            wait(engine, 0, last, timeout=0.1)
        projected(made, logs, loaded)
        wait(engine, 0, last, timeout=0)
        wait(engine, 0, last, projection="recent_orders", topic="order.events", timeout=0)
        with pytest.raises(
            ConfigurationError, match=r"no position of projection 'other'.*; it has recent_orders"
        ):
            wait(engine, 0, last, projection="other")
