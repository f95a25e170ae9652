"""A command fails only after it was tried alone often enough."""

from collections.abc import Iterator

import pytest

from cqrs_cli.observer import message_listener, observing
from cqrs_cli.ownership.poison_detection.attempts import ATTEMPTS, Attempts


@pytest.fixture
def notes() -> Iterator[list[str]]:
    """The messages for the operator."""
    texts: list[str] = []
    with observing(message_listener(texts.append)):
        yield texts


def test_command_fails_after_all_attempts(notes: list[str]) -> None:
    attempts_of_partition = Attempts("p")
    for _ in range(ATTEMPTS - 1):
        attempts_of_partition.record_failed_alone(7, "MemoryError")
    assert attempts_of_partition.poison_reasons == {} and notes == []
    attempts_of_partition.record_failed_alone(7, "MemoryError")
    assert attempts_of_partition.poison_reasons == {7: f"MemoryError (tried alone {ATTEMPTS} times)"}
    assert notes == [f"p offset 7 failed: MemoryError (tried alone {ATTEMPTS} times)"]
    assert attempts_of_partition.force_failed == frozenset()


def test_each_command_has_its_own_attempts() -> None:
    partition_attempts = Attempts("p")
    for offset in range(5):
        partition_attempts.record_failed_alone(offset, "MemoryError")
    assert partition_attempts.poison_reasons == {}


def test_command_failing_again_is_not_read(notes: list[str]) -> None:
    partition_attempts = Attempts("p", frozenset({3}))
    for _ in range(ATTEMPTS + 1):
        partition_attempts.record_failed_alone(7, "MemoryError")
    assert partition_attempts.force_failed == {3, 7}
    reason = f"MemoryError (tried alone {ATTEMPTS + 1} times)"
    assert notes[1:] == [f"p offset 7 failed; its dead letter omits the command's bytes: {reason}"]


@pytest.mark.parametrize(
    ("log", "name"), [("/shop/.cqrs/log/run.log",) * 2, ("", "the log of the Spark worker")]
)
def test_error_is_reported_once(
    notes: list[str], capsys: pytest.CaptureFixture[str], log: str, name: str
) -> None:
    partition_attempts = Attempts("p", worker_log=log)
    for _ in range(2):
        partition_attempts.report_errors({"a.py:5: KeyError": "Traceback …\nKeyError: 'x'\n"})
    assert notes == [f"a.py:5: KeyError while deciding: such commands fail; the traceback is in {name}"]
    assert capsys.readouterr().err == "p: Traceback …\nKeyError: 'x'\n"
