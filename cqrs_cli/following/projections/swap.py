"""Exchanges the live tables of a projection, and their positions, for the new ones: in one transaction where tables are
part of one, else so that it is finished by whoever comes next.

1. Lock the live positions of all partitions: the live tables stand still.
2. Fold into the new tables what is missing, until each new position is as far as the live one: nobody who waited for
   an event may lose it.
3. Exchange tables and positions, the owner among them, so that an older run finds that it was taken over.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace

from sqlalchemy import Connection, MetaData, Table, inspect, make_url, select, text, update
from sqlalchemy.exc import OperationalError

from cqrs_cli.errors import TakenOverError
from cqrs_cli.following.projections.control import POSITIONS, PROJECTIONS
from cqrs_cli.following.projections.database import BUSY, open_database
from cqrs_cli.following.projections.load import LoadedProjection
from cqrs_cli.following.projections.mariadb.exchanging import exclusively, rename_tables
from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectorResult
from cqrs_cli.following.projections.positions import Position, read_positions
from cqrs_cli.following.projections.prepare import patiently
from cqrs_cli.following.projections.runner import project_partitions
from cqrs_cli.following.projections.tables import adopt_control, clear_place, drop_schema, finish_exchange
from cqrs_cli.kafka.event_tail import EventPartition, Tell

#: Brings the new tables up to these offsets.
CatchUp = Callable[[Mapping[EventPartition, int]], None]


def exchange(live: ProjectionPlan, new: ProjectionPlan, loaded: LoadedProjection, note: Tell) -> None:
    """`swap_tables`; what is missing is folded in this process. Tried again while the database is busy or away."""

    def catch_up(targets: Mapping[EventPartition, int]) -> None:
        tail = replace(new, targets=targets)
        raise_first(
            project_partitions(tail, [source for source in new.sources if source in targets], loaded, note)
        )

    patiently(lambda: swap_tables(live, new, catch_up), live.place, note)


def raise_first(results: Iterable[ProjectorResult]) -> None:
    """Raise the error of the first projector that failed."""
    for result in results:
        if result.error is not None:
            raise result.error


def swap_tables(live: ProjectionPlan, new: ProjectionPlan, catch_up: CatchUp) -> None:
    """Put the new tables in the place of the live ones. Raises `TakenOverError` if the new ones are another run's."""
    match make_url(live.place.url).get_backend_name():
        case "sqlite":
            _swap_files(live, new, catch_up)
        case "mariadb":
            _swap_databases(live, new, catch_up)
        case _:
            _swap_schemas(live, new, catch_up)


def _targets(
    plan: ProjectionPlan, positions: Mapping[tuple[str, int], Position]
) -> dict[EventPartition, int]:
    """The positions of the live tables; those of a topic that was made again do not count."""
    return {
        source: found.next_offset
        for source in plan.sources
        if (found := positions.get((source.topic, source.partition))) is not None
        and found.topic_id == plan.topic_ids[source.topic]
    }


def _check_owner(plan: ProjectionPlan, owners: set[str]) -> None:
    if owners != {plan.owner}:
        other = ", ".join(sorted(owners - {plan.owner})) or "nobody"
        raise TakenOverError(
            f"run {other} took over the new tables of projection {plan.name}",
            "let it work: it exchanges them",
        )


def _swap_schemas(live: ProjectionPlan, new: ProjectionPlan, catch_up: CatchUp) -> None:
    """PostgreSQL: tables move between schemas, with their indexes and sequences."""
    schema = str(new.place.schema)
    engine = open_database(live.place)
    try:
        with engine.begin() as db:
            theirs = _stand_still(db, live, new, catch_up)
            if theirs is not None:
                _exchange_schemas(db, schema, *_both_tables(db, live.name, schema))
                adopt_control(db, live.name, theirs, schema)
                drop_schema(db, schema)
    finally:
        engine.dispose()


def _swap_databases(live: ProjectionPlan, new: ProjectionPlan, catch_up: CatchUp) -> None:
    """MariaDB: the three steps of `mariadb.exchanging`, which says why."""
    beside = str(new.place.schema)
    engine = open_database(live.place)
    try:
        with exclusively(engine, live.name) as db:
            if finish_exchange(db, live.name, beside):  # the answer to the renaming was lost
                return
            db.commit()
            theirs = _stand_still(db, live, new, catch_up)
            if theirs is None:
                return
            old, made = _both_tables(db, live.name, beside)
            db.execute(update(POSITIONS).where(POSITIONS.c.projection == live.name).values(owner=new.owner))
            db.commit()
            rename_tables(db, beside, old, made, theirs.name)
            finish_exchange(db, live.name, beside)
    finally:
        engine.dispose()


def _stand_still(
    db: Connection, live: ProjectionPlan, new: ProjectionPlan, catch_up: CatchUp
) -> Table | None:
    """Lock the live positions and bring the new ones up to them; the table of these, whose rows are locked, too.

    None if they are in place: the answer to the last commit was lost.
    """
    mine = POSITIONS.c.projection == live.name
    db.execute(select(POSITIONS.c.next_offset).where(mine).with_for_update()).all()
    before = read_positions(db, live.name)
    if not inspect(db).has_table(POSITIONS.name, schema=new.place.schema):
        _check_owner(new, {position.owner for position in before.values()})
        return None
    catch_up(_targets(live, before))
    theirs = POSITIONS.to_metadata(MetaData(), schema=str(new.place.schema))
    _check_owner(new, set(db.execute(select(theirs.c.owner).with_for_update()).scalars()))
    return theirs


def _both_tables(db: Connection, name: str, schema: str) -> tuple[list[str], list[str]]:
    """The names of the live tables and of the new ones."""
    facts = PROJECTIONS.to_metadata(MetaData(), schema=schema)
    old, made = (
        db.execute(select(table.c.tables).where(table.c.projection == name)).scalar_one()
        for table in (PROJECTIONS, facts)
    )
    return list(json.loads(old)), list(json.loads(made))


def _exchange_schemas(db: Connection, schema: str, old: list[str], tables: list[str]) -> None:
    home = db.execute(text("SELECT current_schema()")).scalar_one()
    if old:
        db.execute(text("DROP TABLE IF EXISTS " + ", ".join(f'"{home}"."{table}"' for table in old)))
    for table in tables:
        db.execute(text(f'ALTER TABLE "{schema}"."{table}" SET SCHEMA "{home}"'))


def _swap_files(live: ProjectionPlan, new: ProjectionPlan, catch_up: CatchUp) -> None:
    """SQLite: the rows are copied from the new tables' file. Only the live file is written, so one commit does it."""
    try:
        _copy_file(live, new, catch_up)
    except sqlite3.OperationalError as error:  # as SQLAlchemy has it, whose errors can be sorted
        raise OperationalError("exchange", None, error) from error
    clear_place(open_database(live.place), new.place)


def _copy_file(live: ProjectionPlan, new: ProjectionPlan, catch_up: CatchUp) -> None:
    with closing(_attached(live, new)) as db:
        db.execute("BEGIN")
        # The first statement writes: it takes the live file's lock, and not the other's, where catching up writes.
        db.execute("UPDATE cqrs_positions SET owner = owner WHERE projection = ?", (live.name,))
        positions = db.execute(
            "SELECT topic, partition, topic_id, next_offset, owner FROM main.cqrs_positions WHERE projection = ?",
            (live.name,),
        )
        catch_up(_targets(live, {(t, p): Position(*rest) for t, p, *rest in positions}))
        _check_owner(new, {owner for (owner,) in db.execute("SELECT owner FROM new.cqrs_positions")})
        _exchange_files(db, live.name)
        db.execute("COMMIT")
        db.execute("DETACH new")


def _attached(live: ProjectionPlan, new: ProjectionPlan) -> sqlite3.Connection:
    db = sqlite3.connect(str(make_url(live.place.url).database), timeout=BUSY, isolation_level=None)
    db.execute("ATTACH ? AS new", (make_url(new.place.url).database,))
    return db


def _exchange_files(db: sqlite3.Connection, name: str) -> None:
    ((old,),) = db.execute("SELECT tables FROM main.cqrs_projections WHERE projection = ?", (name,))
    ((made,),) = db.execute("SELECT tables FROM new.cqrs_projections WHERE projection = ?", (name,))
    for table in json.loads(old):
        db.execute(f'DROP TABLE IF EXISTS main."{table}"')
    tables = list(json.loads(made))
    marks = ", ".join("?" for _ in tables)
    scripts = db.execute(
        f"SELECT sql FROM new.sqlite_master WHERE tbl_name IN ({marks}) AND type = 'table'", tables
    ).fetchall()
    indexes = db.execute(
        f"SELECT sql FROM new.sqlite_master WHERE tbl_name IN ({marks}) AND type = 'index' AND sql IS NOT NULL",
        tables,
    ).fetchall()
    for (script,) in scripts:
        db.execute(script)
    for table in tables:
        db.execute(f'INSERT INTO main."{table}" SELECT * FROM new."{table}"')
    for (script,) in indexes:
        db.execute(script)
    db.execute("DELETE FROM main.cqrs_positions WHERE projection = ?", (name,))
    db.execute("INSERT INTO main.cqrs_positions SELECT * FROM new.cqrs_positions")
    db.execute("DELETE FROM main.cqrs_projections WHERE projection = ?", (name,))
    db.execute("INSERT INTO main.cqrs_projections SELECT * FROM new.cqrs_projections")
