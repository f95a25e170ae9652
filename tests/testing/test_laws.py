"""Each law is broken once on purpose, by an otherwise correct aggregate."""

import importlib
import itertools
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest

from cqrs_cli.testing import BrokenLaw, check_laws, laws

SOURCE = """
import math, random
import cqrs_cli as cqrs

class Add(cqrs.Command):
    tag: str
    weight: float = 0.0
class Added(cqrs.Event):
    tag: str
    weight: float = 0.0
    others: tuple[str, ...] = ()
class Bag(cqrs.State):
    tags: {tags} = {empty}
    weight: float = 0.0

def decide(command: Add, bag: Bag):
    {decide}

def evolve(bag: Bag, event: Added) -> Bag:
    {evolve}

decider = cqrs.Decider(decide, evolve, initial=Bag())
"""
WELL = {
    "tags": "tuple[str, ...]",
    "empty": "()",
    "decide": "yield Added(command.tag)",
    "evolve": "return cqrs.replace(bag, tags=(*bag.tags, event.tag))",
}
MakeBag = Callable[..., ModuleType]


@pytest.fixture
def bag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeBag]:
    """A function that makes a module from `SOURCE`, which other processes can also import by its name."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def make(source: str = SOURCE, **parts: str) -> ModuleType:
        name = f"bag_{len(made)}"
        made.append(name)
        (tmp_path / f"{name}.py").write_text(source.format(**WELL | parts))
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield make
    for name in made:
        del sys.modules[name]


@pytest.fixture
def unshrunk() -> Iterator[None]:
    """Tests need only the verdict, and shrinking its example takes seconds."""
    before = hypothesis.settings.get_current_profile_name()
    hypothesis.settings.load_profile("unshrunk")
    yield
    hypothesis.settings.load_profile(before)


@pytest.mark.program
def test_a_sound_aggregate_keeps_the_laws(bag: MakeBag) -> None:
    check_laws(bag())


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        pytest.param(
            {"evolve": "return cqrs.replace(bag, tag=event.tag)"},
            "evolve.* raised TypeError",
            id="misspelt field",
        ),
        pytest.param(
            {"decide": "yield Added(command.tag, random.random())"}, "depends on chance or time", id="chance"
        ),
        pytest.param({"decide": "yield Added(command.tag, math.nan)"}, "not finite", id="NaN event"),
        pytest.param(
            {"evolve": "return cqrs.replace(bag, weight=math.inf)"}, "not finite", id="infinite state"
        ),
        pytest.param(
            {"decide": "yield Added(None)"}, "survive the wire: Expected `str`, got `null`", id="type"
        ),
        pytest.param(
            {"decide": "yield Added('', others=[''])"}, "is read back as", id="list for tuple in an event"
        ),
        pytest.param({"decide": "yield command"}, "is not an event of this aggregate", id="no event"),
        pytest.param({"decide": "raise KeyError('x')"}, "decide.* raised KeyError", id="decide raises"),
        pytest.param({"evolve": "return None"}, "evolve returned None", id="no state"),
        pytest.param(
            {"evolve": "return cqrs.replace(bag, tags=[event.tag])"}, "being stored", id="list for tuple"
        ),
        pytest.param(
            {"tags": "list[str]", "empty": "[]", "evolve": "bag.tags.append(event.tag); return bag"},
            "changed what it was given",
            id="evolve mutates",
        ),
        pytest.param(
            {
                "tags": "list[str]",
                "empty": "[]",
                "decide": "bag.tags.append(command.tag); yield Added(command.tag)",
                "evolve": "return bag",
            },
            "changed what it was given",
            id="decide mutates",
        ),
        pytest.param(
            {
                "tags": "dict[str, int]",
                "empty": "{}",
                "decide": "yield from map(Added, [*bag.tags, command.tag])",
                "evolve": "return cqrs.replace(bag, tags=bag.tags | {event.tag: 1})",
            },
            "depends on the order of a dict or set",
            id="order of a dict",
        ),
    ],
)
@pytest.mark.usefixtures("unshrunk")
def test_the_laws_catch(bag: MakeBag, parts: dict[str, str], complaint: str) -> None:
    with pytest.raises(BrokenLaw, match=complaint):
        laws(bag(**parts).decider)


SETS = {
    "in the state": {
        "tags": "frozenset[str]",
        "empty": "frozenset()",
        "decide": "yield from map(Added, bag.tags | {command.tag})",
        "evolve": "return cqrs.replace(bag, tags=bag.tags | {event.tag})",
    },
    "in decide": {"decide": "yield from map(Added, {command.tag, 'x', 'y', 'z'})"},
    "in evolve": {"evolve": "return cqrs.replace(bag, tags=tuple({*bag.tags, event.tag}))"},
}


@pytest.mark.program
@pytest.mark.usefixtures("unshrunk")
@pytest.mark.parametrize("parts", SETS.values(), ids=SETS)
def test_order_of_a_set_is_caught(bag: MakeBag, parts: dict[str, str]) -> None:
    with pytest.raises(BrokenLaw, match="depends on the order of a"):
        check_laws(bag(**parts))


def test_chance_is_reported_as_chance(bag: MakeBag) -> None:
    """Hypothesis cannot repeat such a failure, so our message replaces its complaint."""
    module = bag(decide="yield Added(command.tag, float(next(calls) == 7))")
    module.calls = itertools.count()  # type: ignore[attr-defined]
    with pytest.raises(BrokenLaw, match="depends on chance or time"):
        laws(module.decider)


def test_a_failure_shows_the_smallest_history(bag: MakeBag) -> None:
    module = bag(decide="assert len(bag.tags) < 2; yield Added(command.tag)")
    with pytest.raises(BrokenLaw, match="raised AssertionError") as failure:
        laws(module.decider)
    assert "commands=" in "".join(failure.value.__notes__)
    assert "".join(failure.value.__notes__).count("Add(") == 3


def test_verdict_comes_first_with_its_line(bag: MakeBag) -> None:
    with pytest.raises(BrokenLaw) as failure:
        check_laws(bag(decide="raise KeyError('x')"))
    assert str(failure.value).splitlines()[0] == "bag_0.py:17: decide raised KeyError: 'x'"
    with pytest.raises(BrokenLaw) as failure:
        check_laws(bag(evolve="return cqrs.replace(bag, weight=random.random())"))
    assert str(failure.value).splitlines()[0] == "bag_1.py:19: evolve depends on chance or time"


@pytest.mark.slow
def test_only_lines_of_the_author_show(bag: MakeBag) -> None:
    """The traceback shows neither the package nor hypothesis between the test and the verdict."""
    for parts in ({"decide": "raise KeyError('x')"}, {"evolve": "return None"}):
        with pytest.raises(BrokenLaw) as failure:
            check_laws(bag(**parts))
        shown = [entry.path for entry in failure.traceback.filter(failure)]
        assert {str(path) for path in shown} == {__file__}
        assert "cqrs_cli" not in str(failure.value) + "".join(failure.value.__notes__)


def test_laws_name_the_missing_package(bag: MakeBag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ImportError, match="pip install hypothesis"):
        laws(bag().decider)


@pytest.fixture
def timed_bag(bag: MakeBag) -> MakeBag:
    """Like `bag`, for aggregates whose `decide` takes the context."""
    source = SOURCE.replace("(command: Add, bag: Bag)", "(command: Add, bag: Bag, at: cqrs.Context)")
    return partial(bag, source)


@pytest.mark.program
def test_rule_about_time_keeps_the_laws(timed_bag: MakeBag) -> None:
    check_laws(
        timed_bag(
            decide="if at.time.timestamp() >= bag.weight + 3600: yield Added(command.tag, at.time.timestamp())",
            evolve="return Bag(bag.tags, event.weight)",
        )
    )


def test_laws_let_time_and_versions_pass(timed_bag: MakeBag) -> None:
    """A rule that fails only days later, at a version above 1, is found with its context."""
    started = "at.version > 1 and at.time.timestamp() > bag.weight + 86_000"
    module = timed_bag(
        decide=f"assert not ({started}); yield Added(command.tag, at.time.timestamp())",
        evolve="return Bag(bag.tags, event.weight)",
    )
    with pytest.raises(
        BrokenLaw, match=r"raised AssertionError\n.*Context\(aggregate_id='id-1', version=(?:[2-9]|1\d)\b"
    ):
        laws(module.decider)


@pytest.mark.program
def test_set_order_shows_with_context(timed_bag: MakeBag) -> None:
    with pytest.raises(BrokenLaw, match="depends on the order of a set"):
        check_laws(timed_bag(**SETS["in decide"]))
