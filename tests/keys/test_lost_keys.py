"""Readers that reach the end of the events distinguish a lost key from an erased key."""

import pytest

from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.errors import ContradictionError
from cqrs_cli.keys.event_decryptor import EventDecryptor
from tests.keys.in_memory import ANN, FIRST, MASKED, SECOND, KeysInMemory, data, event


def test_lost_key_is_named(opener: EventDecryptor, keys: KeysInMemory) -> None:
    """No later event erases it: its record was deleted by hand."""
    keys.put("c-42", None)
    keys.logs[0] = [
        event(0, ANN, FIRST),
        event(1, ANN, SECOND, "c-41"),
        event(2, Erased(SECOND.kid), None, "c-41"),
    ]
    opener.view_events(0, keys.logs[0][:2])
    with pytest.raises(
        ContradictionError,
        match=rf"key {FIRST.kid} of 'c-42' is not in customer\.keys partition 0, and it was not erased",
    ):
        opener.check_no_lost_keys()


@pytest.mark.parametrize("partition", [0, 2], ids=["further on", "in a child of the partition"])
def test_erasure_ahead_is_found(opener: EventDecryptor, keys: KeysInMemory, partition: int) -> None:
    """The key is deleted already, and the reader has not reached the `Erased` event."""
    keys.put("c-42", None)
    keys.logs = {0: [event(0, ANN, FIRST)], 1: [], 2: []}
    keys.logs[partition].append(event(7, Erased(FIRST.kid)))
    assert data(opener.view_events(0, keys.logs[0][:1])) == [MASKED]
    opener.check_no_lost_keys()


def test_nothing_is_read_twice(opener: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-42", None)
    keys.logs = {}  # looking ahead would fail
    opener.view_events(0, [event(0, ANN, FIRST)])
    opener.view_events(0, [event(1, Erased(FIRST.kid))])
    opener.check_no_lost_keys()
