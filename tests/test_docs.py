"""Documents refer to existing files and names in the code."""

import inspect
import json
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.cli.render.progress import progress_document
from cqrs_cli.core import decide
from cqrs_cli.core.messages import command as envelope
from cqrs_cli.core.messages import event, outcome
from cqrs_cli.core.messages.reasons import STATUSES, Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.measures import FoldProgress
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport
from cqrs_cli.keyspace.lineage import fold_lineage
from cqrs_cli.keyspace.records import read_lineage_record
from cqrs_cli.ownership.claim import Counts
from cqrs_cli.runs.snapshot import Snapshot
from docs.promises import covers, promises
from tests.support import ROOT

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "compose/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
TEXTS = [document.read_text(encoding="utf-8") for document in DOCUMENTS]

#: A dotted name in code style that begins with a folder of the package, such as `ownership.claim.judge`.
_FOLDERS = "|".join(
    sorted(path.name for path in (ROOT / "cqrs_cli").iterdir() if path.is_dir() and path.name != "spark")
    + [rf"spark\.{path.stem}" for path in (ROOT / "cqrs_cli/spark").glob("*.py")]
)  # any other `spark.x.y` is a setting of Spark
_NAME = re.compile(rf"`((?:{_FOLDERS})(?:\.\w+)+)`")

#: A test as pytest names it, such as `tests/deciding/test_owner.py::test_…`.
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")

NAMED_TESTS = {test for text in TEXTS for test in _TEST.findall(text)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_within_the_repository_exist(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("name", sorted({name for text in TEXTS for name in _NAME.findall(text)}))
def test_names_in_documents_exist(name: str) -> None:
    assert pkgutil.resolve_name(f"cqrs_cli.{name}")


def test_names_in_documents_are_used() -> None:
    """The package itself uses the name, because code that only tests call is not part of the design."""
    code = "\n".join(path.read_text() for path in (ROOT / "cqrs_cli").rglob("*.py"))
    counts = Counter(re.findall(r"\w+", code))
    names = {name for text in TEXTS for name in _NAME.findall(text)}
    assert {name for name in names if counts[name.rpartition(".")[2]] < 2} == set()


@pytest.mark.parametrize(("file", "test"), sorted(NAMED_TESTS))
def test_tests_named_in_documents_exist(file: str, test: str) -> None:
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


def test_every_promise_is_covered() -> None:
    assert {cover.promise for cover in covers()} == set(promises())


@pytest.mark.slow
def test_every_promise_is_covered_in_ci() -> None:
    """At least one test of each promise runs in `make test` or `make test-slow`, not only in the nightly tests."""
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "covers and not nightly"]
    files = sorted({cover.file for cover in covers()})
    output = subprocess.run([*collect, *files], cwd=ROOT, capture_output=True, text=True).stdout
    collected = set(re.findall(r"^(tests/[^\[\n]+)", output, re.MULTILINE))
    covered = {cover.promise for cover in covers() if f"{cover.file}::{cover.test}" in collected}
    assert set(promises()) - covered == set()


MESSAGES = (ROOT / "docs/messages.md").read_text(encoding="utf-8")
MESSAGE_TYPES = (
    envelope.CommandEnvelope,
    event.EventEnvelope,
    outcome.OutcomeEnvelope,
    outcome.Verdict,
    outcome.Original,
)


def rows(header: str) -> list[str]:
    """Return the rows of the table whose header begins with `header`."""
    _, _, table = MESSAGES.partition(f"\n{header}")
    return table.partition("\n\n")[0].splitlines()[2:]


def test_table_of_statuses_is_up_to_date() -> None:
    not_remembered = {reason.status: reason.name for reason in Reason if not reason.remembered}
    expected = []
    for name, status in STATUSES.items():
        exception = f", except `{not_remembered[name]}`" if name in not_remembered else ""
        expected.append(
            f"| `{name}` | {status.meaning} | {'yes' + exception if status.remembered else 'no'} |"
        )
    assert rows("| `status` | meaning |") == expected


def test_table_of_reasons_is_up_to_date() -> None:
    assert rows("| `reason` | `status` |") == [
        f"| `{reason.name}` | {reason.status} | {str(reason.retryable).lower()} | {reason.meaning} |"
        for reason in Reason
    ]


def test_numbered_checks_name_their_reasons() -> None:
    _, _, text = MESSAGES.partition("### What is checked, in this order")
    checks = dict(re.findall(r"^(\d+)\. (.*(?:\n   .*)*)", text.partition("\n## ")[0], re.MULTILINE))
    assert list(checks) == [str(number) for number in range(1, 12)]
    assert [reason.name for reason in Reason if f"`{reason.name}`" not in checks[str(reason.check)]] == []


def test_code_numbers_the_checks_alike() -> None:
    lines = re.findall(r"  # (\d+)$", inspect.getsource(decide), re.MULTILINE)
    assert lines == [str(number) for number in range(1, 12)]


@pytest.mark.parametrize(
    "name", sorted({*STATUSES, *(field for kind in MESSAGE_TYPES for field in kind.__struct_fields__)})
)
def test_statuses_and_fields_are_documented(name: str) -> None:
    assert f"`{name}`" in MESSAGES


def test_shown_stream_has_the_real_members() -> None:
    blocks = re.findall(r"^```ndjson\n(.*?)^```$", MESSAGES, re.MULTILINE | re.DOTALL)
    note, progress, end = (json.loads(line) for text in blocks for line in text.splitlines())
    partition = Partition("counter", 0)
    reports = {partition: OwnerReport("counter", 0, 0, 0, 1, "warm", FoldProgress(1, 0, 1))}
    snapshot = Snapshot(0.0, {partition: Counts()}, lags={partition: 1}, reports=reports)
    stamp = {"time": "", "kind": ""}
    assert member_names(progress) == member_names({**stamp, **progress_document(snapshot, 0.0)})
    assert member_names(end) == member_names({**stamp, "how": "", **snapshot.summary()})
    assert list(note) == [*stamp, "level", "text"]
    assert [note["kind"], progress["kind"], end["kind"]] == ["note", "progress", "end"]


def member_names(document: Any) -> Any:
    """Return the members of a document, at every depth."""
    return (
        {name: member_names(value) for name, value in document.items()}
        if isinstance(document, dict)
        else None
    )


def test_shown_messages_can_be_read() -> None:
    lineage_records, command, event_document, outcome_document = (
        text.encode() for text in re.findall(r"^```json\n(.*?)^```$", MESSAGES, re.MULTILINE | re.DOTALL)
    )
    assert fold_lineage(map(read_lineage_record, lineage_records.splitlines()), 4).activated == {5}
    assert envelope.read_command(Record(0, 0, b"acc-42", command, list(event.HEADERS))).expected_text() == "7"
    assert event.read_event(event_document).position() == (3, 18274, 0)
    assert outcome.read_outcome(outcome_document).data.reason == "VERSION_CONFLICT"
