"""A command fails only after it was tried alone often enough."""

import pytest

from cqrs_cli.ownership.trials.attempts import ATTEMPTS, Attempts


def attempts(notes: list[str], force_failed: frozenset[int] = frozenset()) -> Attempts:
    return Attempts("p", notes.append, force_failed)


def test_command_fails_after_all_attempts() -> None:
    notes: list[str] = []
    attempts_of_partition = attempts(notes)
    for _ in range(ATTEMPTS - 1):
        attempts_of_partition.record_failed_alone(7, "MemoryError")
    assert attempts_of_partition.poison_reasons == {} and notes == []
    attempts_of_partition.record_failed_alone(7, "MemoryError")
    assert attempts_of_partition.poison_reasons == {7: f"MemoryError (tried alone {ATTEMPTS} times)"}
    assert notes == [f"p offset 7 failed: MemoryError (tried alone {ATTEMPTS} times)"]
    assert attempts_of_partition.force_failed == frozenset()


def test_each_command_has_its_own_attempts() -> None:
    partition_attempts = attempts([])
    for offset in range(5):
        partition_attempts.record_failed_alone(offset, "MemoryError")
    assert partition_attempts.poison_reasons == {}


def test_command_failing_again_is_not_read() -> None:
    notes: list[str] = []
    partition_attempts = attempts(notes, frozenset({3}))
    for _ in range(ATTEMPTS + 1):
        partition_attempts.record_failed_alone(7, "MemoryError")
    assert partition_attempts.force_failed == {3, 7}
    reason = f"MemoryError (tried alone {ATTEMPTS + 1} times)"
    assert notes[1:] == [f"p offset 7 failed; its dead letter omits the command's bytes: {reason}"]


def test_error_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    notes: list[str] = []
    partition_attempts = attempts(notes)
    for _ in range(2):
        partition_attempts.report_errors({"a.py:5: KeyError": "Traceback …\nKeyError: 'x'\n"})
    assert notes == ["a.py:5: KeyError while deciding: such commands fail; the traceback is in the log"]
    assert capsys.readouterr().err == "p: Traceback …\nKeyError: 'x'\n"
