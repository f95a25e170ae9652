"""The standby registry: pure tests, with clocks that may differ a little."""

from cqrs_cli.ownership.claim import MAX_METADATA
from cqrs_cli.ownership.standby_registry import (
    MAX_REGISTRATIONS,
    REGISTRATION_TTL,
    valid_registrations,
    with_registration,
)


def runs(registry: str, now: int) -> list[str]:
    return [registration.run for registration in valid_registrations(registry, now)]


def test_each_run_is_registered_once() -> None:
    registry = with_registration(with_registration(with_registration("", "a", 0), "b", 1), "a", 2)
    assert runs(registry, 3) == ["b", "a"]


def test_silent_runs_are_removed() -> None:
    registry = with_registration(with_registration("", "a", 0), "b", REGISTRATION_TTL)
    assert runs(registry, REGISTRATION_TTL + 1) == ["b"]
    assert runs(registry, 3 * REGISTRATION_TTL) == []


def test_other_texts_are_empty_registries() -> None:
    assert [valid_registrations(text, 0) for text in ("", "{}", "\0", '["a",1]')] == [[]] * 4


def test_registry_fits_in_offset_metadata() -> None:
    registry = ""
    for number in range(2 * MAX_REGISTRATIONS):
        registry = with_registration(registry, f"{number:0100}", number)
    assert len(runs(registry, 2 * MAX_REGISTRATIONS)) == MAX_REGISTRATIONS
    assert len(registry) < MAX_METADATA
