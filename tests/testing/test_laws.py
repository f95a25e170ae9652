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
import datetime, math, random
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
SOUND_PARTS = {
    "tags": "tuple[str, ...]",
    "empty": "()",
    "decide": "yield Added(command.tag)",
    "evolve": "return cqrs.replace(bag, tags=(*bag.tags, event.tag))",
}
MakeBag = Callable[..., ModuleType]


@pytest.fixture
def make_bag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeBag]:
    """A function that makes a module from `SOURCE`, which other processes can also import by its name."""
    monkeypatch.syspath_prepend(tmp_path)
    names: list[str] = []

    def make_module(source: str = SOURCE, **parts: str) -> ModuleType:
        name = f"bag_{len(names)}"
        names.append(name)
        (tmp_path / f"{name}.py").write_text(source.format(**SOUND_PARTS | parts))
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield make_module
    for name in names:
        del sys.modules[name]


@pytest.fixture
def without_shrinking() -> Iterator[None]:
    """Tests need only the verdict, and shrinking its example takes seconds."""
    profile = hypothesis.settings.get_current_profile_name()
    hypothesis.settings.load_profile("unshrunk")
    yield
    hypothesis.settings.load_profile(profile)


@pytest.mark.program
def test_a_sound_aggregate_keeps_the_laws(make_bag: MakeBag) -> None:
    check_laws(make_bag())


@pytest.mark.parametrize(
    ("parts", "message"),
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
            {"decide": "yield Added('', others=[''])"},
            "is decoded to another",
            id="list for tuple in an event",
        ),
        pytest.param({"decide": "yield command"}, "is not an event of this aggregate", id="no event"),
        pytest.param({"decide": "raise KeyError('x')"}, "decide.* raised KeyError", id="decide raises"),
        pytest.param({"evolve": "return None"}, "evolve returned None", id="no state"),
        pytest.param(
            {"evolve": "return cqrs.replace(bag, tags=[event.tag])"}, "being stored", id="list for tuple"
        ),
        pytest.param(
            {"tags": "list[str]", "empty": "[]", "evolve": "bag.tags.append(event.tag); return bag"},
            "modified its arguments",
            id="evolve mutates",
        ),
        pytest.param(
            {
                "tags": "list[str]",
                "empty": "[]",
                "decide": "bag.tags.append(command.tag); yield Added(command.tag)",
                "evolve": "return bag",
            },
            "modified its arguments",
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
@pytest.mark.usefixtures("without_shrinking")
def test_broken_laws_are_found(make_bag: MakeBag, parts: dict[str, str], message: str) -> None:
    with pytest.raises(BrokenLaw, match=message):
        laws(make_bag(**parts).decider)


UNORDERED_PARTS = {
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
@pytest.mark.usefixtures("without_shrinking")
@pytest.mark.parametrize("parts", UNORDERED_PARTS.values(), ids=UNORDERED_PARTS)
def test_order_of_a_set_is_caught(make_bag: MakeBag, parts: dict[str, str]) -> None:
    with pytest.raises(BrokenLaw, match="depends on the order of a"):
        check_laws(make_bag(**parts))


def test_chance_is_reported_as_chance(make_bag: MakeBag) -> None:
    """Hypothesis cannot repeat such a failure, so our message replaces its complaint."""
    module = make_bag(decide="yield Added(command.tag, float(next(calls) == 7))")
    module.calls = itertools.count()  # type: ignore[attr-defined]
    with pytest.raises(BrokenLaw, match="depends on chance or time"):
        laws(module.decider)


def test_a_failure_shows_the_smallest_history(make_bag: MakeBag) -> None:
    module = make_bag(decide="assert len(bag.tags) < 2; yield Added(command.tag)")
    with pytest.raises(BrokenLaw, match="raised AssertionError") as failure:
        laws(module.decider)
    assert "commands=" in "".join(failure.value.__notes__)
    assert "".join(failure.value.__notes__).count("Add(") == 3


def test_verdict_comes_first_with_its_line(make_bag: MakeBag) -> None:
    with pytest.raises(BrokenLaw) as failure:
        check_laws(make_bag(decide="raise KeyError('x')"))
    assert str(failure.value).splitlines()[0] == "bag_0.py:17: decide raised KeyError: 'x'"
    with pytest.raises(BrokenLaw) as failure:
        check_laws(make_bag(evolve="return cqrs.replace(bag, weight=random.random())"))
    assert str(failure.value).splitlines()[0] == "bag_1.py:19: evolve depends on chance or time"


@pytest.mark.slow
def test_traceback_shows_only_the_users_code(make_bag: MakeBag) -> None:
    """The traceback shows neither the package nor hypothesis between the test and the verdict."""
    for parts in ({"decide": "raise KeyError('x')"}, {"evolve": "return None"}):
        with pytest.raises(BrokenLaw) as failure:
            check_laws(make_bag(**parts))
        paths = [entry.path for entry in failure.traceback.filter(failure)]
        assert {str(path) for path in paths} == {__file__}
        assert "cqrs_cli" not in str(failure.value) + "".join(failure.value.__notes__)


def test_laws_name_the_missing_package(make_bag: MakeBag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ImportError, match="pip install hypothesis"):
        laws(make_bag().decider)


@pytest.fixture
def make_timed_bag(make_bag: MakeBag) -> MakeBag:
    """Like `make_bag`, for aggregates whose `decide` takes the context."""
    source = SOURCE.replace("(command: Add, bag: Bag)", "(command: Add, bag: Bag, at: cqrs.Context)")
    return partial(make_bag, source)


@pytest.mark.program
@pytest.mark.parametrize(
    "decide",
    [
        pytest.param(
            "if at.time.timestamp() >= bag.weight + 3600: yield Added(command.tag, at.time.timestamp())",
            id="rule about time",
        ),
        pytest.param(
            "if at.time.day % 2: raise cqrs.Later(reason=command.tag)\n    yield Added(command.tag)",
            id="deferral",
        ),
    ],
)
def test_uses_of_the_context_keep_the_laws(make_timed_bag: MakeBag, decide: str) -> None:
    check_laws(make_timed_bag(decide=decide, evolve="return Bag(bag.tags, event.weight)"))


def test_random_delays_break_the_laws(make_timed_bag: MakeBag) -> None:
    module = make_timed_bag(
        decide="raise cqrs.Later(datetime.timedelta(random.random() + 1)); yield",
        evolve="return bag",
    )
    with pytest.raises(BrokenLaw, match="decide depends on chance or time"):
        laws(module.decider)


def test_laws_try_later_times_and_versions(make_timed_bag: MakeBag) -> None:
    """A rule that fails only days later, at a version above 1, is found with its context."""
    condition = "at.version > 1 and at.time.timestamp() > bag.weight + 86_000"
    module = make_timed_bag(
        decide=f"assert not ({condition}); yield Added(command.tag, at.time.timestamp())",
        evolve="return Bag(bag.tags, event.weight)",
    )
    with pytest.raises(
        BrokenLaw, match=r"raised AssertionError\n.*Context\(aggregate_id='id-1', version=(?:[2-9]|1\d)\b"
    ):
        laws(module.decider)


@pytest.mark.program
def test_set_order_shows_with_context(make_timed_bag: MakeBag) -> None:
    with pytest.raises(BrokenLaw, match="depends on the order of a set"):
        check_laws(make_timed_bag(**UNORDERED_PARTS["in decide"]))
