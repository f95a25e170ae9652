"""Rows become commands, without Spark: columns, ids, and errors that name row and column."""

import math
import random
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow  # noqa: TID253 - the rows come from it
import pytest
from pyspark.sql.types import (  # noqa: TID253
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructType,
)

import cqrs_cli as cqrs
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import UsageError
from cqrs_cli.spark.bad_rows import BadRows
from cqrs_cli.spark.command_columns import check_columns
from cqrs_cli.spark.command_writer import send_rows
from cqrs_cli.spark.row_commands import RowCommands
from cqrs_cli.spark.write_options import WriteOptions, parse_write_options
from tests.support.harness import TopicHarness


class Owner(msgspec.Struct, frozen=True):
    name: str = "?"
    photo: bytes | None = None
    extra: Any = None
    parent: "Owner | None" = None


class Deposit(cqrs.Command):
    amount: Decimal
    id: int = 7
    note: str | None = "?"
    labels: dict[str, int | str] = cqrs.field(default_factory=dict)
    rate: float | None = None
    extra: Any = None
    owner: Owner = Owner()
    range: tuple[int, int] | None = None
    items: list[Any] = cqrs.field(default_factory=list)


class Close(cqrs.Command):
    pass


class Closed(cqrs.Event):
    pass


class Account(cqrs.State):
    pass


def decide(command: Deposit | Close, account: Account) -> list[Closed]:
    return [Closed()]


def evolve(account: Account, event: Closed) -> Account:
    return account


ACCOUNT = Aggregate.of("account", cqrs.Decider(decide, evolve, Account()))


def commands_of(type: str | None, id_prefix: str | None = None, /, **columns: Any) -> list[dict[str, Any]]:
    """Return the CloudEvents of rows in two batches of the same columns."""
    rows = RowCommands(ACCOUNT, type, id_prefix)
    batch = pyarrow.record_batch(columns)
    return [
        msgspec.json.decode(command.value) for part in (batch, batch) for command in rows.commands_of(part)
    ]


def test_columns_become_attributes_and_fields() -> None:
    command = commands_of(
        "Deposit",
        id=["c-1"],
        subject=["acc-1"],
        expected=[3],
        correlation=["k"],
        amount=[Decimal("1.50")],
        data_id=[8],
        labels=pyarrow.array([[("a", '"x"'), ("b", "2")]], pyarrow.map_(pyarrow.string(), pyarrow.string())),
    )[1]
    assert command == {
        "specversion": "1.0",
        "id": "c-1",
        "source": "/cqrs/spark",
        "type": "account.Deposit",
        "subject": "acc-1",
        "expectedversion": "3",
        "correlationid": "k",
        "data": {"amount": "1.50", "id": 8, "labels": {"a": "x", "b": 2}},
    }


def test_null_is_the_default_unless_accepted() -> None:
    columns: dict[str, Any] = {
        "id": ["c"],
        "subject": ["a"],
        "amount": [Decimal(1)],
        "data_id": [None],
        "note": [None],
    }
    assert commands_of("Deposit", **columns)[0]["data"] == {"amount": "1", "note": None}


def test_row_numbers_continue_across_batches() -> None:
    ids = [command["id"] for command in commands_of("Close", "q/3/1/", subject=["a", "b"])]
    assert ids == ["q/3/1/0", "q/3/1/1", "q/3/1/2", "q/3/1/3"]


def test_rows_may_have_different_types() -> None:
    commands = commands_of(
        None, "", subject=["a", "a"], type=["Close", "account.Deposit"], data=["{}", '{"amount":"2"}']
    )
    assert [(command["type"], command["data"]) for command in commands[:2]] == [
        ("account.Close", {}),
        ("account.Deposit", {"amount": "2"}),
    ]


@pytest.mark.parametrize(
    ("type", "row", "message"),
    [
        ("Deposit", {"amount": "x"}, "column amount: Invalid decimal string"),
        ("Deposit", {"amount": None}, "column amount is null"),
        ("Deposit", {"data_id": "8"}, "column data_id: Expected `int`, got `str` - at `$.id`"),
        ("Deposit", {"labels": {"a": "x"}}, "column labels is not JSON"),
        ("Deposit", {"labels": {"a": '1, "b": 2'}}, "column labels is not JSON"),
        ("Deposit", {"extra": 7}, "column extra is not JSON"),
        ("Deposit", {"extra": "[" * 200_000 + "]" * 200_000}, "column extra is not JSON"),
        ("Deposit", {"rate": math.nan}, "column rate is not a finite number"),
        ("Deposit", {"rate": -math.inf}, "column rate is not a finite number"),
        ("Deposit", {"owner": "Ada"}, "column owner has a type that the field cannot have"),
        ("Deposit", {"subject": None}, "column subject is null"),
        ("Deposit", {"id": None}, "column id is null"),
        ("Deposit", {"id": ""}, "column id has 0 bytes"),
        ("Deposit", {"expected": "soon"}, "column expected: "),
        ("Deposit", {"traceparent": "soon"}, "column traceparent: 'soon' is not a W3C traceparent"),
        (None, {"type": "Opne", "data": "{}"}, "account has no command 'Opne'"),
        (None, {"type": "Close", "data": "{} {}"}, "column data: JSON is malformed"),
        (None, {"type": "Deposit", "data": '{"extra":' + "[" * 200_000}, "column data: "),
    ],
)
def test_invalid_row_is_named(type: str | None, row: dict[str, Any], message: str) -> None:
    valid = {"id": "c", "subject": "a"} | ({} if type is None else {"amount": "1"})
    invalid = pyarrow.RecordBatch.from_pylist([valid | row])
    rows = RowCommands(ACCOUNT, type, None)
    if type is not None:
        assert len(list(rows.commands_of(pyarrow.RecordBatch.from_pylist([valid])))) == 1
    with pytest.raises(UsageError) as raised:
        list(rows.commands_of(invalid))
    number = 0 if type is None else 1
    assert raised.value.message.startswith(f"row {number}, id {(valid | row)['id']!r}: {message}")


def test_bad_rows_become_lines_of_a_file(tmp_path: Path) -> None:
    for _ in range(2):  # a repeated task replaces its file
        bad_rows = BadRows(str(tmp_path / "bad"), "query-3-1")
        rows = RowCommands(ACCOUNT, "Deposit", "q/3/1/", bad_rows)
        batch = pyarrow.record_batch({"subject": ["a", None, "b"], "amount": [Decimal(1)] * 3})
        assert [command.id for command in rows.commands_of(batch)] == ["q/3/1/0", "q/3/1/2"]
        bad_rows.save()
    (file,) = (tmp_path / "bad").iterdir()
    assert (file.name, msgspec.json.decode(file.read_bytes())) == (
        "query-3-1.json",
        {
            "reason": "column subject is null",
            "row_number": 1,
            "row": {"subject": None, "amount": "1", "id": "q/3/1/1"},
        },
    )


def test_valid_rows_need_no_file(tmp_path: Path) -> None:
    BadRows(str(tmp_path / "bad"), "query-3-1").save()
    assert list(tmp_path.iterdir()) == []


def test_valid_rows_remove_an_earlier_file(tmp_path: Path) -> None:
    for name in ("query-3-1", "query-3-2"):
        bad_rows = BadRows(str(tmp_path), name)
        bad_rows.add(0, {}, "column subject is null")
        bad_rows.save()
    BadRows(str(tmp_path), "query-3-1").save()
    assert [file.name for file in tmp_path.iterdir()] == ["query-3-2.json"]


@pytest.fixture
def unreadable_batch() -> pyarrow.RecordBatch:
    """Three rows, whose second has a time that Python does not have, and whose third an invalid text."""
    times = pyarrow.array([1, 300_000_000_000_000_000, 2]).cast(pyarrow.timestamp("us", "UTC"))
    texts = pyarrow.array([b"a", b"b", b"\xff"])
    notes = pyarrow.StringArray.from_buffers(3, *texts.buffers()[1:])
    return pyarrow.record_batch(
        {"subject": ["a"] * 3, "amount": [Decimal(1)] * 3, "at": times, "note": notes}
    )


def test_unreadable_values_are_bad_rows(unreadable_batch: pyarrow.RecordBatch, tmp_path: Path) -> None:
    bad_rows = BadRows(str(tmp_path), "query-3-1")
    rows = RowCommands(ACCOUNT, "Deposit", "q/3/1/", bad_rows)
    assert [command.id for command in rows.commands_of(unreadable_batch)] == ["q/3/1/0"]
    bad_rows.save()
    lines = [msgspec.json.decode(line) for line in (tmp_path / "query-3-1.json").read_bytes().splitlines()]
    assert [(line["row_number"], line["reason"], line["row"]["at"]) for line in lines] == [
        (1, "column at: date value out of range", "11476-08-15 05:20:00.000000Z"),
        (
            2,
            "column note: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
            "1970-01-01T00:00:00.000002Z",
        ),
    ]


def test_unreadable_value_is_named(unreadable_batch: pyarrow.RecordBatch) -> None:
    rows = RowCommands(ACCOUNT, "Deposit", "q/3/1/")
    with pytest.raises(
        UsageError, match=r"^row 1, id 'q/3/1/1': column at: date value out of range; correct"
    ):
        list(rows.commands_of(unreadable_batch))


@pytest.mark.kafka
@pytest.mark.parametrize("has_path", [True, False])
def test_too_large_command_is_invalid(counters: TopicHarness, tmp_path: Path, has_path: bool) -> None:
    bad_rows = BadRows(str(tmp_path), "query-3-1") if has_path else None
    rows = RowCommands(ACCOUNT, "Deposit", "q/3/1/", bad_rows)
    notes = [
        "a",
        "b" * 2_000_000,
        random.Random(1).randbytes(1_500_000).hex(),
        "c",
    ]  # "b" is small when compressed
    batch = pyarrow.record_batch({"subject": ["a"] * 4, "amount": [Decimal(1)] * 4, "note": notes})
    with CommandProducer(counters.connection, "murmur2", bulk=True, reports=False) as producer:
        if bad_rows is None:
            with pytest.raises(
                UsageError, match=r"^row 2, id 'q/3/1/2': a command is larger than \S+ allows; raise"
            ):
                send_rows(producer, counters.topics.commands, rows, [batch, batch])
            return
        send_rows(producer, counters.topics.commands, rows, [batch, batch])
        bad_rows.save()
    ids = [msgspec.json.decode(record.value or b"")["id"] for record in counters.records("commands")]
    assert ids == [f"q/3/1/{number}" for number in (0, 1, 3, 4, 5, 7)]
    lines = [msgspec.json.decode(line) for line in (tmp_path / "query-3-1.json").read_bytes().splitlines()]
    assert [(line["row_number"], line["row"]["note"]) for line in lines] == [(2, notes[2]), (6, notes[2])]
    assert lines[0]["reason"] == f"a command is larger than {counters.topics.commands} allows"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("bad", f"{Path.cwd()}/bad"),
        ("file:/bad", "file:/bad"),
        ("s3a://bucket/bad", "s3://bucket/bad"),
        ("", ""),
    ],
)
def test_folders_have_arrows_form(path: str, expected: str) -> None:
    options = parse_write_options({"aggregate": "order", "badRecordsPath": path})
    assert options.bad_records_path == expected


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({}, "id string, subject string, amont integer", "account.Deposit has no column 'amont'; did you mean amount?"),
        ({}, "id string, subject string, offset integer", "account.Deposit has no column 'offset'; known: id,"),
        ({}, "id string, amount integer", "account.Deposit needs the column 'subject'"),
        ({}, "id string, subject string", "account.Deposit needs the column 'amount'"),
        ({"type": None}, "id string, subject string, data string", "a command of account needs the column 'type'"),
        ({}, "subject string, amount integer", "the rows have no column id, by which repeated commands are recognised"),
        ({"numbers_rows": True}, "id string, subject string, amount integer", "option ids: the rows have a column id"),
        ({}, "id string, subject integer, amount integer", "column subject is int; cast it to string"),
        ({}, "id string, subject string, amount integer, note binary", "column note is binary, which would be sent as"),
    ],
)  # fmt: skip
def test_wrong_columns_are_named(options: dict[str, Any], columns: str, message: str) -> None:
    schema = StructType()
    for column in columns.split(", "):
        name, column_type = column.split()
        schema.add(name, column_type)
    with pytest.raises(UsageError) as raised:
        check_columns(schema, ACCOUNT, WriteOptions("account", "commands", **{"type": "Deposit"} | options))
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("column", "column_type", "accepted"),
    [
        ("range", BinaryType(), True),
        ("labels", MapType(StringType(), BinaryType()), True),
        ("labels", MapType(BinaryType(), StringType()), False),
        ("items", ArrayType(BinaryType()), True),
        ("owner", StructType().add("photo", "binary").add("extra", "binary").add("parent", "binary"), True),
        ("owner", StructType().add("name", "binary").add("extra", "string"), False),
        ("note", ArrayType(BinaryType()), False),
    ],
)
def test_json_columns_may_be_binary(column: str, column_type: DataType, accepted: bool) -> None:
    schema = StructType()
    for name in ("id", "subject", "amount"):
        schema.add(name, "string")
    schema.add(column, column_type)
    expected = nullcontext() if accepted else pytest.raises(UsageError, match=f"column {column} is .*Base64")
    with expected:
        check_columns(schema, ACCOUNT, WriteOptions("account", "commands", type="Deposit"))


def test_binary_json_is_sent() -> None:
    columns = {"range": [b"[1, 2]"], "labels": [{"a": b'"x"'}], "items": [[b"{}"]]}
    (command, _) = commands_of("Deposit", "a/", subject=["a"], amount=["1"], **columns)
    assert command["data"] == {"amount": "1", "range": [1, 2], "labels": {"a": "x"}, "items": [{}]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option aggregate is missing"),
        ({"aggregate": "order", "id": "x"}, "unknown option 'id'; did you mean ids?"),
        ({"aggregate": "order", "since": "10m"}, "unknown option 'since'; known: aggregate, type, ids"),
        ({"aggregate": "order", "ids": "row"}, "option ids: there is no 'row'; one of column, rows"),
    ],
)
def test_wrong_write_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_write_options(options)
    assert str(raised.value).startswith(message)
