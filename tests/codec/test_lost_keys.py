"""Readers that reach the end of the events distinguish a lost key from an erased key."""

import pytest

from cqrs_cli.codec.event_decryptor import EventDecryptor
from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.errors import ContradictionError
from tests.codec.in_memory import (
    ANN,
    FIRST_KEY,
    MASKED_DATA,
    SECOND_KEY,
    KeysInMemory,
    event_data,
    event_record,
)


def test_lost_key_is_named(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    """The key's record was deleted by hand, and no later event erases the key."""
    keys.put("c-42", None)
    keys.logs[0] = [
        event_record(0, ANN, FIRST_KEY),
        event_record(1, ANN, SECOND_KEY, "c-41"),
        event_record(2, Erased(SECOND_KEY.kid), None, "c-41"),
    ]
    decryptor.view_events(0, keys.logs[0][:2])
    with pytest.raises(
        ContradictionError,
        match=rf"key {FIRST_KEY.kid} of 'c-42' is not in customer\.keys partition 0, and it was not erased",
    ):
        decryptor.check_no_lost_keys()


@pytest.mark.parametrize("partition", [0, 2], ids=["later offset", "child partition"])
def test_later_erasure_is_found(decryptor: EventDecryptor, keys: KeysInMemory, partition: int) -> None:
    """The key is deleted already, and the reader has not reached the `Erased` event."""
    keys.put("c-42", None)
    keys.logs = {0: [event_record(0, ANN, FIRST_KEY)], 1: [], 2: []}
    keys.logs[partition].append(event_record(7, Erased(FIRST_KEY.kid)))
    assert event_data(decryptor.view_events(0, keys.logs[0][:1])) == [MASKED_DATA]
    decryptor.check_no_lost_keys()


def test_read_erasure_is_not_searched_again(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-42", None)
    keys.logs = {}  # reading ahead would fail
    decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])
    decryptor.view_events(0, [event_record(1, Erased(FIRST_KEY.kid))])
    decryptor.check_no_lost_keys()
