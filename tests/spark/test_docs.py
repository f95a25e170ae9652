"""The joins part of docs/insight.md is correct: its code runs in sequence, and its tables agree with the code."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from cqrs_cli.core.messages.command import read_command
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.spark.columns import ENVELOPE
from cqrs_cli.spark.field_types import field_columns
from cqrs_cli.spark.offset_ranges import OFFSETS_PER_TASK
from cqrs_cli.spark.options import OPTIONS
from tests.spark.order_topics import append, event
from tests.support import ROOT
from tests.support.annotations import annotation_type
from tests.support.eventlog import create_topics
from tests.support.project import Project

PAGE = (ROOT / "docs/insight.md").read_text(encoding="utf-8").partition("\n## Joins")[2]
CODE = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def rows(header: str) -> list[list[str]]:
    """Return the cells of the table whose first header is `header`."""
    table = PAGE.partition(f"| {header} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


ANNOTATIONS = [
    (annotation.replace("\\|", "|"), column.partition("`, ")[0].strip("`"))
    for cell, column in rows("annotation")
    for annotation in re.findall(r"`([^`]+)`", cell)
]


@pytest.mark.parametrize(("annotation", "column"), ANNOTATIONS)
def test_types_have_the_documented_columns(annotation: str, column: str) -> None:
    field_type = annotation_type(annotation)
    (field_column,) = field_columns(msgspec.defstruct("Happened", [("held", field_type)], frozen=True))
    assert field_column.type.simpleString() == column


def test_documented_columns_match_the_code() -> None:
    columns_by_topic = {topic.strip("`"): re.findall(r"`(\w+)`", cell) for topic, cell in rows("topic")}
    names = {
        field_type: [name for name in columns_by_topic[field_type] if name != "data"]
        for field_type in columns_by_topic
    }
    assert names == {field_type: list(columns) for field_type, columns in ENVELOPE.items()}


def test_documented_options_match_the_code() -> None:
    assert [name.strip("`") for name, *_ in rows("option")] == list(OPTIONS)
    assert f"{OFFSETS_PER_TASK:,} offsets" in PAGE


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_documented_code_runs_in_sequence(
    connection: Connection, project: Project, prefix: str, tmp_path: Path
) -> None:
    """The code runs as one program in a project with orders, two of which are paid, one of them in time."""
    for name in ("order", "payment"):
        create_topics(connection, Topics(name, prefix), partitions=2)
    day = 86_400_000
    start = 1_800_000_000_000
    for number in range(3):
        placed_order = event(number, "Placed", {"customer": f"ann-{number}"}, time=start)
        append(connection, f"{prefix}order.events", [placed_order], number % 2, start)
    append(connection, f"{prefix}order.events", 3 * [event(1, "LineAdded", {"sku": "tea", "quantity": 1})])
    for number, days in ((0, 2), (1, 4)):
        payment = event(number, "Paid", {"reference": f"tr-{number}"}, aggregate="payment")
        append(connection, f"{prefix}payment.events", [payment], 0, start + days * day)
    program = tmp_path / "program.py"
    program.write_text("\n".join(CODE))
    process = subprocess.run(
        [sys.executable, str(program)],
        cwd=project.folder,
        env=project.environment | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    output = process.stdout.replace(" ", "")
    assert "|order.Placed|3|" in output and "|order.LineAdded|3|" in output
    assert re.findall(r"\|(o-\d)\|(ann-\d)\|.*\|(tr-\d)\|", output) == [("o-0", "ann-0", "tr-0")]
    assert "|tea|3|" in output and "0tea3" in output
    assert (project.folder / "paid_orders.checkpoint").is_dir()
    bounds = readers.bounds(connection, f"{prefix}order.commands", range(2))
    (gift,) = [
        read_command(record)
        for partition, ends in bounds.items()
        for records in readers.read(connection, f"{prefix}order.commands", partition, *ends)
        for record in records
    ]
    assert (gift.id, gift.type, gift.subject) == ("gift", "order.AddLine", "o-1")
