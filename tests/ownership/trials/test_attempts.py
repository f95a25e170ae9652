"""A command fails only after it was tried alone often enough."""

import pytest

from cqrs_cli.ownership.trials.attempts import ATTEMPTS, Attempts


def attempts(notes: list[str], refused: frozenset[int] = frozenset()) -> Attempts:
    return Attempts("p", notes.append, refused)


def test_blame_needs_all_attempts() -> None:
    notes: list[str] = []
    tried = attempts(notes)
    for _ in range(ATTEMPTS - 1):
        tried.record_failed_alone(7, "MemoryError")
    assert tried.failing == {} and notes == []
    tried.record_failed_alone(7, "MemoryError")
    assert tried.failing == {7: f"MemoryError (tried alone {ATTEMPTS} times)"}
    assert notes == [f"p offset 7 failed: MemoryError (tried alone {ATTEMPTS} times)"]
    assert tried.force_failed == frozenset()


def test_each_command_has_its_own_attempts() -> None:
    tried = attempts([])
    for offset in range(5):
        tried.record_failed_alone(offset, "MemoryError")
    assert tried.failing == {}


def test_blamed_command_failing_again_is_unread() -> None:
    notes: list[str] = []
    tried = attempts(notes, frozenset({3}))
    for _ in range(ATTEMPTS + 1):
        tried.record_failed_alone(7, "MemoryError")
    assert tried.force_failed == {3, 7}
    why = f"MemoryError (tried alone {ATTEMPTS + 1} times)"
    assert notes[1:] == [f"p offset 7 failed; its dead letter omits the command's bytes: {why}"]


def test_error_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    notes: list[str] = []
    tried = attempts(notes)
    for _ in range(2):
        tried.report_raised({"a.py:5: KeyError": "Traceback …\nKeyError: 'x'\n"})
    assert notes == ["a.py:5: KeyError while deciding: such commands fail; the traceback is in the log"]
    assert capsys.readouterr().err == "p: Traceback …\nKeyError: 'x'\n"
