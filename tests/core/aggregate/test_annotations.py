from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar, Generic, TypeVar, Union

import pytest
from msgspec import defstruct
from typing_extensions import TypeAliasType

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.errors import InvalidAggregate

T = TypeVar("T")


class Go(cqrs.Command):
    pass


class Stop(cqrs.Command):
    pass


class Gone(cqrs.Event):
    pass


class Stopped(cqrs.Event):
    pass


class Car(cqrs.State):
    moving: bool = False


class Box(cqrs.Command, Generic[T]):
    content: T


class Tagged(cqrs.Command, tag=True):
    pass


class Listed(cqrs.Command, array_like=True):
    pass


Loose = defstruct("Loose", [], bases=(cqrs.Command,), frozen=False)


class Owned(cqrs.State):
    owner: str


def another_go() -> type[cqrs.Command]:
    class Go(cqrs.Command):
        pass

    return Go


class Priced(cqrs.Event):
    amount = 5


class Fixed(cqrs.Event):
    """An event with a constant, a class and a property, which are not fields."""

    LIMIT: ClassVar[int] = 5
    Unit = Car
    amount: int = 5

    @property
    def double(self) -> int:
        return 2 * self.amount


def aggregate(command: Any = Go, event: Any = Gone, state: Any = Car, initial: Any = None) -> Aggregate:
    """Return the aggregate of a decider with these annotations; None removes the annotations."""

    def decide(command, state):  # type: ignore[no-untyped-def]
        return ()

    def evolve(state, event):  # type: ignore[no-untyped-def]
        return state

    decide.__annotations__ = {"command": command, "state": state} if command else {}
    evolve.__annotations__ = {"state": state, "event": event} if event else {}
    return Aggregate.of("car", cqrs.Decider(decide, evolve, initial=initial or Car()))


def raises_invalid(message: str) -> pytest.RaisesExc[InvalidAggregate]:
    return pytest.raises(InvalidAggregate, match=message)


#: The type that Python 3.12 creates for `type Drive = Go | Stop`.
Drive = TypeAliasType("Drive", Go | Stop)


@pytest.mark.parametrize("union", [Go | Stop, Union[Go, Stop], Drive])  # noqa: UP007 - the older spelling is read too
def test_annotations_name_commands_and_events(union: object) -> None:
    car_aggregate = aggregate(union, Gone | Stopped)
    assert car_aggregate.commands == {"car.Go": Go, "car.Stop": Stop}
    assert car_aggregate.event_types == {Gone: "car.Gone", Stopped: "car.Stopped"}
    assert car_aggregate.state is Car
    assert [decode(b"{}") for decode in car_aggregate.decode_command.values()] == [Go(), Stop()]
    assert (car_aggregate.ce_source, car_aggregate.package) == ("/cqrs/car", "tests.core.aggregate")


def test_annotations_may_be_strings() -> None:
    assert aggregate("Go | Stop").commands == {"car.Go": Go, "car.Stop": Stop}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"command": None}, "decide: annotate 'command' with the commands it accepts.* found no annotation"),
        ({"event": None}, "evolve: annotate 'event' with the events it accepts.* found no annotation"),
        ({"command": Go | None}, "found NoneType"),
        ({"command": Gone}, r"found Gone; the order is decide\(command, state\)"),
        ({"command": cqrs.Command}, "found Command"),
        ({"command": "Gogo"}, "annotations of decide cannot be read: name 'Gogo' is not defined"),
        ({"command": Go | another_go()}, "decide accepts two commands named Go"),
        ({"command": Box}, "Box is generic"),
        ({"command": Box[int]}, r"found .*Box\[int\]"),
        ({"command": Tagged}, "Tagged has a tag or is array_like"),
        ({"command": Listed}, "Listed has a tag or is array_like"),
        ({"command": Loose}, "Loose is not frozen"),
        ({"state": Owned}, "decide: annotate 'state' with Car, the class of `initial`, found Owned"),
        ({"state": Car | None}, "annotate 'state' with Car"),
        (
            {"event": Priced},
            r"Priced.amount has no annotation, so it is not a field: write `amount: int = 5`",
        ),
        ({"initial": 5}, "initial must be an instance of your own cqrs.State, found 5"),
        ({"initial": Owned("ann"), "state": Owned}, "Owned.owner needs a default"),
    ],
)
def test_wrong_annotation_is_explained(arguments: dict[str, Any], message: str) -> None:
    with raises_invalid(message) as failure:
        aggregate(**arguments)
    assert callable(failure.value.where)


@pytest.mark.parametrize(
    ("function", "name"), [(lambda command: (), "<lambda>"), (lambda a, b, c, d: (), "<lambda>"), (7, "7")]
)
def test_decide_takes_two_parameters(function: Callable[..., Any], name: str) -> None:
    with raises_invalid(rf"^{name} must be a function decide\(command, state\)") as failure:
        Aggregate.of("car", cqrs.Decider(function, evolve, initial=Car()))
    assert failure.value.where is function


def evolve_with_context(car: Car, event: Gone, at: cqrs.Context) -> Car:
    return car


def test_evolve_takes_two_parameters() -> None:
    with raises_invalid(r"^evolve_with_context must be a function evolve\(state, event\)"):
        Aggregate.of("car", cqrs.Decider(decides_with_context, evolve_with_context, initial=Car()))  # type: ignore[arg-type]


async def async_decide(command: Go, car: Car) -> list[Gone]:
    return []


async def async_generator(command: Go, car: Car) -> AsyncIterator[Gone]:
    yield Gone()


@pytest.mark.parametrize("function", [async_decide, async_generator])
def test_async_decide_is_refused(function: Any) -> None:
    with raises_invalid(f"{function.__name__} is `async def`: write `def`") as failure:
        Aggregate.of("car", cqrs.Decider(function, evolve, initial=Car()))
    assert failure.value.where is function


def test_constants_and_properties_are_no_fields() -> None:
    assert aggregate(event=Fixed).events == {"car.Fixed": Fixed}


def yield_stopped(command: Go, car: Car) -> Iterator[Gone | Stopped]:
    yield Stopped()


StopEvents = TypeAliasType("StopEvents", Iterator[Gone | Stopped])


def yield_named_union(command: Go, car: Car) -> StopEvents:
    yield Stopped()


@pytest.mark.parametrize("function", [yield_stopped, yield_named_union])
def test_event_without_evolve_is_refused(function: Any) -> None:
    message = f"{function.__name__} returns Stopped, which evolve does not accept: add it to the annotation of evolve's"
    with raises_invalid(message) as failure:
        Aggregate.of("car", cqrs.Decider(function, evolve, initial=Car()))
    assert failure.value.where is function


def decides_with_context(command: Go, car: Car, at: cqrs.Context) -> list[Gone]:
    return []


def evolve(car: Car, event: Gone) -> Car:
    return car


def test_third_parameter_is_the_context() -> None:
    assert Aggregate.of("car", cqrs.Decider(decides_with_context, evolve, initial=Car())).decides_with_context
    assert not aggregate().decides_with_context


def unannotated(command: Go, car: Car, at) -> list[Gone]:  # type: ignore[no-untyped-def]
    return []


def number_as_context(command: Go, car: Car, at: int) -> list[Gone]:
    return []


def keyword_context(command: Go, car: Car, *, at: cqrs.Context) -> list[Gone]:
    return []


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (unannotated, "unannotated: annotate its third parameter, 'at', with cqrs.Context, found no annot"),
        (number_as_context, "found int"),
        (keyword_context, r"keyword_context must be a function decide\(command, state, at: cqrs.Context\)"),
    ],
)
def test_other_third_parameter_is_refused(function: Callable[..., Any], message: str) -> None:
    with raises_invalid(message) as failure:
        Aggregate.of("car", cqrs.Decider(function, evolve, initial=Car()))
    assert failure.value.where is function


def test_the_wrong_class_is_named() -> None:
    with raises_invalid("Tagged") as failure:
        aggregate(Tagged)
    assert failure.value.where is Tagged
