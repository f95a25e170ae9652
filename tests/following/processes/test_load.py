from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, CqrsError, UsageError
from cqrs_cli.following.processes.load import load_process, process_names
from tests.support import ROOT
from tests.support.user_code import write_process

PROCESS = """
from collections.abc import Iterator
import cqrs_cli as cqrs
from aggregates.order import Placed, Ship
from aggregates.payment import Paid, Request

def react(event: Placed | Paid, at: cqrs.Recorded) -> Iterator[cqrs.Send]:
    yield cqrs.Send("order", at.aggregate_id, Ship())

process = cqrs.Process(react)
"""


def test_example_is_found() -> None:
    assert "checkout" in process_names(ROOT)
    loaded = load_process("checkout", ROOT, "aggregates")
    assert sorted(loaded.sources) == ["order", "payment"]
    assert {event_type.__name__ for event_type in loaded.events} == {"Placed", "Cancelled", "Paid"}
    assert loaded.output_topics == ("order.commands", "payment.commands")
    assert loaded.location.startswith("processes/checkout.py:")


def test_complete_process_loads(tmp_path: Path) -> None:
    assert load_process("mine", write_process(tmp_path, PROCESS), "aggregates").output_topics == (
        "order.commands",
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("process = cqrs.Process(react)", "", "processes/mine.py defines no process"),
        (
            "Placed | Paid, at",
            "str, at",
            r"processes/mine.py:7: annotate the events to which react subscribes",
        ),
        ("at: cqrs.Recorded)", "at: str)", r"processes/mine.py:7: annotate the second parameter"),
        ('Send("order"', 'Send("ordr"', r"processes/mine.py:8: there is no aggregate 'ordr'"),
        ('cqrs.Send("order"', "1 / 0; cqrs.Send('x'", r"processes/mine.py:8: there is no aggregate 'x'"),
        (
            "import cqrs_cli as cqrs\n",
            "import cqrs_cli as cqrs\n1 / 0\n",
            r"processes/mine.py:4: ZeroDivision",
        ),
        (
            "def react(event: Placed | Paid",
            "from cqrs_cli.core.aggregate.erased import Erased\ndef react(event: Placed | Erased",
            r"processes/mine.py:8: it subscribes to cqrs.Erased, but none of its aggregates",
        ),
        (
            "def react(event: Placed | Paid",
            "class Foreign(cqrs.Event): pass\ndef react(event: Placed | Foreign",
            "Foreign is not an event of an aggregate of this project",
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in PROCESS
    root = write_process(tmp_path, PROCESS.replace(old, new))
    with pytest.raises(ConfigurationError, match=problem):
        load_process("mine", root, "aggregates")


def test_misspelt_aggregate_suggests_another(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        load_process("mine", write_process(tmp_path, PROCESS.replace('"order"', '"ordre"')), "aggregates")
    assert error.value.hint.startswith("did you mean order? known: ")


def test_unknown_process_suggests_another() -> None:
    with pytest.raises(UsageError, match="no process 'chekout'; did you mean checkout"):
        load_process("chekout", ROOT, "aggregates")


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CqrsError, match="there is no folder 'processes' with modules in"):
        load_process("mine", tmp_path, "aggregates")
