"""Reads the parameters of the console's requests, and converts errors to problems."""

from collections.abc import Callable

from starlette.datastructures import QueryParams

from cqrs_cli.console.project import ConsoleProject
from cqrs_cli.errors import CqrsError, UnavailableError, UsageError
from cqrs_cli.following.gateway.gateway import Problem
from cqrs_cli.settings.moments import parse_moment


def to_problem(error: CqrsError) -> Problem:
    """Return the problem for an error: 503 if a retry may help, 400 for wrong parameters, otherwise 500."""
    status = 503 if isinstance(error, UnavailableError) else 400 if isinstance(error, UsageError) else 500
    return Problem(status, error.code, str(error))


def required(parameters: QueryParams, name: str) -> str:
    """Return the value of a parameter; raises `Problem` 400 if it is missing or empty."""
    if not (value := parameters.get(name)):
        raise Problem(400, f"{name} is missing", f"give ?{name}=…")
    return value


def parse_time(name: str, text: str | None, parse: Callable[[str], int] = parse_moment) -> int | None:
    """Return the time in the text of the parameter `name`, ms since 1970; None without a text. Raises `Problem` 400."""
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise Problem(400, f"invalid {name}", str(error)) from None


def since_of(parameters: QueryParams, default: str) -> int:
    """Return the parameter `since` in ms since 1970; raises `Problem` 400. `default`: the text if it is missing."""
    since = parse_time("since", parameters.get("since", default))
    assert since is not None
    return since


def limit_of(parameters: QueryParams, default: int, most: int = 1000) -> int:
    """Return the maximum number of items in a response; raises `Problem` 400."""
    text = parameters.get("limit", str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise Problem(400, "invalid limit", f"must be 1 to {most}, found {text[:40]!r}")
    return int(text)


def flag_of(parameters: QueryParams, name: str) -> bool:
    """Return True for the values `true` and `1`, False for `false`, `0` or no value; raises `Problem` 400."""
    value = parameters.get(name, "false")
    if value not in ("true", "1", "false", "0"):
        raise Problem(400, f"invalid {name}", f"true or false, found {value[:40]!r}")
    return value in ("true", "1")


def aggregate_of(project: ConsoleProject, name: str) -> str:
    """Return the name of a served aggregate; raises `Problem` 404."""
    if name not in project.aggregates:
        raise Problem(404, "no such aggregate", f"known: {', '.join(sorted(project.aggregates))}")
    return name


def aggregates_of(project: ConsoleProject, parameters: QueryParams) -> list[str]:
    """Return the names of the aggregates that a request selects; by default all. Raises `Problem` 404."""
    names = parameters.getlist("aggregate") or list(project.aggregates)
    return [aggregate_of(project, name) for name in names]
