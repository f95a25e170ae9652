"""An aggregate whose code puts a personal value into the message of every exception."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.personal.personal_fields import Personal

PERSONAL_NAME = "Ann-Sophie"


class Greet(cqrs.Command):
    """A command whose `mode` selects the function that raises, and the exception."""

    name: Personal[str]
    mode: str = ""

    def __post_init__(self) -> None:
        if self.mode == "unfit":  # a value that the class does not accept
            raise ValueError(f"{self.name} does not fit")
        if self.mode == "undone":
            raise LookupError(self.name)
        if self.mode == "quit":
            raise SystemExit(self.name)


class Greeted(cqrs.Event):
    name: Personal[str]
    mode: str


class Greeting(cqrs.State):
    name: Personal[str] = ""


def decide(command: Greet, greeting: Greeting) -> Iterator[Greeted]:
    match command.mode:
        case "raise":
            raise RuntimeError(command.name)
        case "reject":
            raise cqrs.Rejected(f"{command.name.upper()} may not", code="NAME")
        case "code":
            raise cqrs.Rejected("no", code=command.name)
        case "state":
            raise cqrs.Rejected(f"it is {greeting.name}")
        case "later":
            raise cqrs.Later(timedelta(hours=1), f"{command.name} sleeps")
        case "rule":
            raise cqrs.Rejected("it may not")
    yield Greeted(command.name, command.mode)


def evolve(greeting: Greeting, event: Greeted) -> Greeting:
    match event.mode:
        case "fold":
            raise KeyError(event.name)
        case "full":
            raise OSError(f"no space left for {event.name}")
        case "exit":
            raise SystemExit(event.name)
    return Greeting(event.name)


def upcast(old: dict[str, Any]) -> Greeted:
    if old["mode"] == "raise":
        raise KeyError(old["name"])
    if old["mode"] == "short":
        raise MemoryError(old["name"])
    return old  # type: ignore[return-value]


LEAKING = Aggregate.of("greeting", cqrs.Decider(decide, evolve, Greeting(), upcasters={"Old": upcast}))
