"""The results of commands, as users read them."""

from cqrs_cli.cli.result import Result


def lines_of(result: Result) -> list[str]:
    """Return the lines of a result that is not a table."""
    assert isinstance(result.text, list)
    return result.text
