"""The commands that show events: decrypted for users with the keyring, redacted for all others."""

from collections.abc import Callable

import pytest

from cqrs_cli.cli.main import main
from tests.personal.people import FIRST_KEY, People

pytestmark = pytest.mark.kafka

#: A function that runs `cqrs` and returns its output.
Said = Callable[..., str]

SHOWING = [
    ("show", "customer", "ann", "--history"),
    ("show", "customer", "ann", "-o", "json"),
    ("tail", "customer", "events"),
    ("tail", "customer", "events", "-n", "1", "-o", "json"),
    ("trace", "c-1", "-o", "json", "--since", "2026-01-01"),
]


@pytest.fixture
def said(people: People, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Said:
    """A function that runs `cqrs` in the project of the people."""
    monkeypatch.chdir(people.folder)

    def call(*arguments: str, with_keyring: bool) -> str:
        people.configure(with_keyring=with_keyring)
        capfd.readouterr()
        status = main(arguments)
        printed = capfd.readouterr()
        assert status == 0, printed.err
        return printed.out

    return call


@pytest.mark.parametrize("arguments", SHOWING, ids=" ".join)
def test_values_are_for_who_has_the_ring(said: Said, people: People, arguments: tuple[str, ...]) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    seen, blind = said(*arguments, with_keyring=True), said(*arguments, with_keyring=False)
    assert "Ann Smith" in seen and "ann@home" in seen
    assert "x@invalid" in blind and not any(word in blind for word in ("Ann", "$sealed"))
    people.erase("ann", FIRST_KEY)
    erased = said(*arguments, with_keyring=True)
    assert not any(word in erased for word in ("Ann", "$sealed"))


def test_dry_run_knows_the_person(said: Said, people: People) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    command = "send", "customer", "ann", "Register", "name=Ann Brown", "--dry-run"
    assert "Ann Brown" in said(*command, with_keyring=True)
