"""Only a command that was tried alone often enough is blamed."""

from cqrs_cli.owner.trials.attempts import ATTEMPTS, Attempts


def test_blame_needs_all_attempts() -> None:
    attempts = Attempts()
    blamed = [attempts.failed_alone(7, "MemoryError") for _ in range(ATTEMPTS)]
    assert blamed == [False] * (ATTEMPTS - 1) + [True]
    assert attempts.blamed == {7: f"MemoryError (tried alone {ATTEMPTS} times)"}
    assert attempts.refused == frozenset()


def test_each_command_has_its_own_attempts() -> None:
    attempts = Attempts()
    assert not any(attempts.failed_alone(offset, "MemoryError") for offset in range(5))
    assert attempts.blamed == {}


def test_blamed_command_failing_again_is_unread() -> None:
    attempts = Attempts(frozenset({3}))
    for _ in range(ATTEMPTS + 1):
        attempts.failed_alone(7, "MemoryError")
    assert attempts.refused == {3, 7}
