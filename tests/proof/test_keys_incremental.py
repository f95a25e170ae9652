"""Keys in a continued verification: the keys in the checkpoint are compared with later events."""

from functools import partial
from pathlib import Path

import pytest

from cqrs_cli.core.fold import decode_event
from cqrs_cli.proof.fingerprints import fingerprint_check_of
from cqrs_cli.proof.scope import PersonalScope, Scope
from tests.proof.encrypted_histories import (
    KEYRING,
    KEYS_TOPIC,
    TALLY,
    EncryptedHistory,
    add,
    encrypt_event,
    erase,
    key,
)
from tests.proof.history import PARTITION, TOPIC, WINDOW, partition_of
from tests.proof.incremental import LOGS, Topics, VerifyRange, verify_piece, verify_ranges, whole_range
from tests.support.foreign_records import changed_record


def verify_all(history: EncryptedHistory, folder: Path, *ranges: VerifyRange) -> list[list[str]]:
    """Return the violations of successive verifies."""
    violations: list[list[str]] = []
    scope = Scope(
        *("tally", TOPIC, PARTITION, dict.fromkeys(LOGS, 0), WINDOW, partition_of),
        command_at=history.command_at,
        decode_event=partial(decode_event, TALLY),
        fits_command=fingerprint_check_of(TALLY),
        personal=PersonalScope(),
    )
    topics = Topics(history.commands, history.outcomes, history.events, history.letters)
    for number, verify_range in enumerate(ranges):
        checkpoint_folder = folder / str(number) if number else None
        report = verify_piece(
            scope, topics, verify_range, checkpoint_folder, folder / str(number + 1), history.check_more
        )
        violations.append([violation.problem for violation in report.violations])
    return violations


@pytest.fixture
def history() -> EncryptedHistory:
    return EncryptedHistory([add(1, "Ann"), add(1, "Ann"), erase(), add(1, "Cem")])


@pytest.mark.covers("verifiable")
def test_erasure_during_verify_is_no_loss(history: EncryptedHistory, tmp_path: Path) -> None:
    """A key whose erasure is committed during the verify is not lost. The next verify judges the command."""
    two_ranges = verify_ranges(history, [2], ahead=(1, 1, 1, 1))
    history.keys = {}
    assert verify_all(history, tmp_path / "gone", *two_ranges)[0] == []
    history.keys = {"a": KEYRING.wrap(KEYS_TOPIC, "a", key(2))}
    (tmp_path / "back").mkdir()
    assert verify_all(history, tmp_path / "back", *two_ranges) == [[], []]


@pytest.mark.covers("verifiable")
def test_key_of_an_earlier_verify_counts(history: EncryptedHistory, tmp_path: Path) -> None:
    history.events[1] = encrypt_event(changed_record(history.events[1], {"who": "Eve"}), key(9))
    (cut, end) = verify_ranges(history, [1])
    first, second = verify_all(history, tmp_path, cut, end)
    assert second[0].startswith(f"is encrypted with key {key(9).kid} of 'a', but key {key(1).kid} is active")
    assert len(first) == 1 and "the key is lost" in first[0]  # the keys topic already has key 2


@pytest.mark.covers("verifiable")
def test_deleted_key_stays_deleted(history: EncryptedHistory, tmp_path: Path) -> None:
    history.events[3] = encrypt_event(changed_record(history.events[3], {"who": "Eve"}), key(1))
    _, second = verify_all(history, tmp_path, verify_ranges(history, [3])[0], whole_range(history))
    assert f"is encrypted with key {key(1).kid} of 'a', which was deleted before" in second
