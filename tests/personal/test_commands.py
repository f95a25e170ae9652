"""The commands that show events: decrypted for users with the keyring, redacted for all others."""

from collections.abc import Callable

import pytest

from cqrs_cli.cli.main import main
from tests.personal.people import FIRST_KEY, People

pytestmark = pytest.mark.kafka

#: A function that runs `cqrs` and returns its output.
RunCqrs = Callable[..., str]

SHOW_COMMANDS = [
    ("show", "customer", "ann", "--history"),
    ("show", "customer", "ann", "-o", "json"),
    ("tail", "customer", "events"),
    ("tail", "customer", "events", "-n", "1", "-o", "json"),
    ("trace", "c-1", "-o", "json", "--since", "2026-01-01"),
]


@pytest.fixture
def run_cqrs(people: People, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> RunCqrs:
    """A function that runs `cqrs` in the project of the people."""
    monkeypatch.chdir(people.folder)

    def run(*arguments: str, with_keyring: bool) -> str:
        people.configure(with_keyring=with_keyring)
        capfd.readouterr()
        status = main(arguments)
        output = capfd.readouterr()
        assert status == 0, output.err
        return output.out

    return run


@pytest.mark.parametrize("arguments", SHOW_COMMANDS, ids=" ".join)
def test_values_are_shown_with_the_keyring(
    run_cqrs: RunCqrs, people: People, arguments: tuple[str, ...]
) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    decrypted, redacted = run_cqrs(*arguments, with_keyring=True), run_cqrs(*arguments, with_keyring=False)
    assert "Ann Smith" in decrypted and "ann@home" in decrypted
    assert "x@invalid" in redacted and not any(word in redacted for word in ("Ann", "$sealed"))
    people.erase("ann", FIRST_KEY)
    erased = run_cqrs(*arguments, with_keyring=True)
    assert not any(word in erased for word in ("Ann", "$sealed"))


def test_dry_run_shows_values_with_keyring(run_cqrs: RunCqrs, people: People) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    command = "send", "customer", "ann", "Register", "name=Ann Brown", "--dry-run"
    assert "Ann Brown" in run_cqrs(*command, with_keyring=True)
