"""Documents point at what exists: files, and names in the code."""

import inspect
import pkgutil
import re
import runpy
from pathlib import Path
from typing import get_args

import pytest

from cqrs_cli.core import decide
from cqrs_cli.core.messages import command as envelope
from cqrs_cli.core.messages import event, expected_version, outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.jobs.run.progress import STATUSES
from tests.support import ROOT

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "compose/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
TEXTS = [document.read_text(encoding="utf-8") for document in DOCUMENTS]

#: `jobs.claim.judge`: a dotted name in code style that begins with a part of the package.
_NAME = re.compile(r"`((?:core|client|doctor|jobs|kafka|owner|proof|settings|state|system)(?:\.\w+)+)`")

#: `tests/owner/test_owner.py::test_…`: a test as pytest names it.
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")

PINNED = runpy.run_path(str(ROOT / "docs/generate_pinned.py"))

NAMED = {named for text in TEXTS for named in _TEST.findall(text)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_within_the_repository_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("name", sorted({name for text in TEXTS for name in _NAME.findall(text)}))
def test_a_name_in_a_document_exists(name: str) -> None:
    assert pkgutil.resolve_name(f"cqrs_cli.{name}")


@pytest.mark.parametrize(("file", "test"), sorted(NAMED))
def test_a_test_named_in_a_document_exists(file: str, test: str) -> None:
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


def test_every_promise_is_pinned() -> None:
    pinned = {pin.promise for pin in PINNED["pins"]()}
    assert pinned == set(PINNED["promises"]())


def test_the_list_of_pins_is_fresh() -> None:
    written = PINNED["TARGET"].read_text(encoding="utf-8")
    assert written == PINNED["page"](), "run: python docs/generate_pinned.py"


MESSAGES = (ROOT / "docs/messages.md").read_text(encoding="utf-8")
REASONS = {
    *get_args(envelope.Reason),
    *get_args(expected_version.Reason),
    *re.findall(r'_reject\(verdict, "(\w+)"', inspect.getsource(decide)),
}
MESSAGE_TYPES = (
    envelope.CommandEnvelope,
    event.EventEnvelope,
    outcome.OutcomeEnvelope,
    outcome.Verdict,
    outcome.Original,
)


def test_every_reason_has_its_row() -> None:
    assert set(re.findall(r"^\| `([A-Z_]+)` \| (?:rejected|failed) \|", MESSAGES, re.MULTILINE)) == REASONS
    assert {"BUSINESS_RULE", "EXPIRED", "ID_REUSED"} < REASONS


@pytest.mark.parametrize(
    "name", sorted({*STATUSES, *(field for kind in MESSAGE_TYPES for field in kind.__struct_fields__)})
)
def test_every_status_and_field_of_a_message_is_named(name: str) -> None:
    assert f"`{name}`" in MESSAGES


def test_the_messages_shown_can_be_read() -> None:
    command, happened, decided = (
        text.encode() for text in re.findall(r"^```json\n(.*?)^```$", MESSAGES, re.MULTILINE | re.DOTALL)
    )
    assert envelope.read_command(Record(0, 0, b"acc-42", command, list(event.HEADERS))).expected_text() == "7"
    assert event.read_event(happened).position() == (3, 18274, 0)
    assert outcome.read_outcome(decided).data.reason == "VERSION_CONFLICT"
