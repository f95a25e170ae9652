"""Keys in a continued verification: the checkpoint's knowledge of keys counts."""

from functools import partial
from pathlib import Path

import pytest

from cqrs_cli.core.fold import decode_event
from cqrs_cli.proof.fingerprints import fingerprint_check_of
from cqrs_cli.proof.scope import PersonalScope, Scope
from tests.proof.encrypted_histories import KEYS, RING, TALLY, Sealed, erase, key, says, sealed
from tests.proof.history import PARTITION, TOPIC, WINDOW, home
from tests.proof.incremental import LOGS, Look, Topics, looks, prove_piece, whole
from tests.support.foreign_records import edited


def proved(told: Sealed, folder: Path, *seen: Look) -> list[list[str]]:
    """Return the violations of successive verifies."""
    found: list[list[str]] = []
    scope = Scope(
        *("tally", TOPIC, PARTITION, dict.fromkeys(LOGS, 0), WINDOW, home),
        command_at=told.command_at,
        decode_event=partial(decode_event, TALLY),
        has_fingerprint=fingerprint_check_of(TALLY),
        personal=PersonalScope(),
    )
    topics = Topics(told.commands, told.outcomes, told.events, told.letters)
    for number, look in enumerate(seen):
        before = folder / str(number) if number else None
        report = prove_piece(scope, topics, look, before, folder / str(number + 1), told.conclude)
        found.append([one.problem for one in report.violations])
    return found


@pytest.fixture
def told() -> Sealed:
    return Sealed([says(1, "Ann"), says(1, "Ann"), erase(), says(1, "Cem")])


@pytest.mark.covers("verifiable")
def test_erasure_under_way_is_no_loss(told: Sealed, tmp_path: Path) -> None:
    """A key whose erasure is committed during the verify is not lost. The next verify judges the command."""
    under_way = looks(told, [2], ahead=(1, 1, 1, 1))
    told.keys = {}
    assert proved(told, tmp_path / "gone", *under_way)[0] == []
    told.keys = {"a": RING.wrap(KEYS, "a", key(2))}
    (tmp_path / "back").mkdir()
    assert proved(told, tmp_path / "back", *under_way) == [[], []]


@pytest.mark.covers("verifiable")
def test_key_of_an_earlier_proof_counts(told: Sealed, tmp_path: Path) -> None:
    told.events[1] = sealed(edited(told.events[1], {"who": "Eve"}), key(9))
    (cut, end) = looks(told, [1])
    first, second = proved(told, tmp_path, cut, end)
    assert second[0].startswith(f"is sealed with key {key(9).kid} of 'a', and key {key(1).kid} is in force")
    assert len(first) == 1 and "the key is lost" in first[0]  # key 2 has followed it in the topic


@pytest.mark.covers("verifiable")
def test_ended_key_stays_ended(told: Sealed, tmp_path: Path) -> None:
    told.events[3] = sealed(edited(told.events[3], {"who": "Eve"}), key(1))
    _, second = proved(told, tmp_path, looks(told, [3])[0], whole(told))
    assert f"is sealed with key {key(1).kid} of 'a', which had ended before" in second
