"""An aggregate whose code puts a personal value into the message of every exception."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.personal.personal_fields import Personal

ANN = "Ann-Sophie"


class Say(cqrs.Command):
    who: Personal[str]
    how: str = ""

    def __post_init__(self) -> None:
        if self.how == "unfit":
            raise ValueError(f"{self.who} does not fit")
        if self.how == "undone":
            raise LookupError(self.who)
        if self.how == "quit":
            raise SystemExit(self.who)


class Said(cqrs.Event):
    who: Personal[str]
    how: str


class Heard(cqrs.State):
    who: Personal[str] = ""


def decide(command: Say, heard: Heard) -> Iterator[Said]:
    match command.how:
        case "raise":
            raise RuntimeError(command.who)
        case "reject":
            raise cqrs.Rejected(f"{command.who.upper()} may not", code="WHO")
        case "code":
            raise cqrs.Rejected("no", code=command.who)
        case "state":
            raise cqrs.Rejected(f"it is {heard.who}")
        case "later":
            raise cqrs.Later(timedelta(hours=1), f"{command.who} sleeps")
        case "rule":
            raise cqrs.Rejected("it may not")
    yield Said(command.who, command.how)


def evolve(heard: Heard, event: Said) -> Heard:
    match event.how:
        case "fold":
            raise KeyError(event.who)
        case "full":
            raise OSError(f"no space left for {event.who}")
        case "exit":
            raise SystemExit(event.who)
    return Heard(event.who)


def upcast(old: dict[str, Any]) -> Said:
    if old["how"] == "raise":
        raise KeyError(old["who"])
    if old["how"] == "short":
        raise MemoryError(old["who"])
    return old  # type: ignore[return-value]


HEARD = Aggregate.of("heard", cqrs.Decider(decide, evolve, Heard(), upcasters={"Old": upcast}))
