"""The checks of a command: each failed check has its reason, and the first failed check counts."""

import json
from datetime import UTC, datetime
from functools import partial
from itertools import combinations
from typing import Any

import pytest
from msgspec.structs import replace

from cqrs_cli.core.checks import check_expiry, without_unsafe_parts
from cqrs_cli.core.deferral.deferrals import DeferralLimits, Deferrals
from cqrs_cli.core.messages.reasons import CheckFailed
from cqrs_cli.core.messages.record import Record
from tests.core.tally import Partition, command, record


def reason(value: bytes | None, key: bytes | None = b"a", **context: Any) -> str:
    verdict = Partition(**context).verdict(record(0, value, key))
    assert verdict["status"] in ("failed", "rejected")
    return str(verdict["reason"])


@pytest.mark.covers("bad-input")
def test_expiry_is_shown_in_utc() -> None:
    decisions = Partition().decide(record(0, command(expirytime="1970-01-01T00:00:05.5Z")))
    assert json.loads(decisions.outcomes[0][0])["data"]["message"] == "expired at 1970-01-01T00:00:05.500000Z"


def test_tracebacks_are_kept_once() -> None:
    """A single traceback is kept for each line and type of the aggregate's exceptions."""
    crashes = [command("Crash", {"mode": mode}) for mode in ("raise", "mute", "raise")]
    decisions = Partition().decide(*(record(offset, value) for offset, value in enumerate(crashes)))
    assert len(decisions.outcomes) == 3 and len(decisions.tracebacks) == 2
    for error, traceback in decisions.tracebacks.items():
        location, _, name = error.partition(": ")
        assert (
            location.startswith("tally.py:")
            and f", line {location.partition(':')[2]}, in decide" in traceback
        )
        assert name in traceback.splitlines()[-1]


@pytest.mark.parametrize(
    ("value", "key", "expected"),
    [
        (command(), None, "KEY_MISSING"),
        (command(), b"", "KEY_MISSING"),
        (None, b"a", "INVALID_ENVELOPE"),
        (b"\xff\xfe", b"a", "INVALID_ENVELOPE"),
        (b"[" * 100_000, b"a", "INVALID_ENVELOPE"),
        (b'{"data":NaN}', b"a", "INVALID_ENVELOPE"),
        (command(id=""), b"a", "INVALID_ENVELOPE"),
        (command(id="x" * 1025), b"a", "INVALID_ENVELOPE"),
        (command(id="ä" * 600), b"a", "INVALID_ENVELOPE"),
        (command(data_base64="AA=="), b"a", "INVALID_ENVELOPE"),
        (command(expirytime="tomorrow"), b"a", "INVALID_ENVELOPE"),
        (command(), b"b", "KEY_MISMATCH"),
        (command(), b"\xff", "KEY_MISMATCH"),
        (command("Nope"), b"a", "UNKNOWN_TYPE"),
        (command(data={"n": 1, "m": 2}), b"a", "INVALID_PAYLOAD"),
        (command(data={"n": "1"}), b"a", "INVALID_PAYLOAD"),
        (command(data={}), b"a", "INVALID_PAYLOAD"),
        (command(expectedversion="07"), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion="+7"), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion=""), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion=-1), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion=7.0), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion=True), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion=2**63), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion=[1]), b"a", "INVALID_EXPECTED_VERSION"),
        (command("Crash", {"mode": "raise"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"mode": "deep"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"mode": "cancel"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"mode": "mute"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"mode": "fold"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"mode": "half"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"mode": "mumble"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"mode": "number"}), b"a", "BUSINESS_RULE"),
        (command("Crash", {"mode": "undone"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"mode": "bytes"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"mode": "nothing"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"mode": "endless"}), b"a", "TOO_LARGE"),
        (command(data={"n": 10_001}), b"a", "TOO_LARGE"),
        (command(expirytime="1970-01-01T00:00:05Z"), b"a", "EXPIRED"),
        (command(expectedversion="exists"), b"a", "NOT_FOUND"),
        (command(expectedversion=1), b"a", "VERSION_CONFLICT"),
        (command(data={"n": -1}), b"a", "BUSINESS_RULE"),
    ],
)
def test_wrong_command_has_its_reason(value: bytes | None, key: bytes | None, expected: str) -> None:
    assert reason(value, key) == expected


def test_event_too_large_is_refused() -> None:
    assert reason(command("Crash", {"mode": "large"}), max_event_bytes=3000) == "TOO_LARGE"


def test_key_must_hash_to_the_partition() -> None:
    assert reason(command(), partition_of=lambda key: 1) == "WRONG_PARTITION"


def test_commands_of_moved_keys_are_forwarded() -> None:
    """The child partition of the key gets the whole command, with its origin added."""
    partition = Partition(partition_of=lambda key: 7, forward_target_of=lambda key: 5)
    decisions = partition.decide(record(4, command(color="red", deferredfrom="3/1")))
    assert [(forward.partition, forward.key) for forward in decisions.forwards] == [(5, b"a")]
    original = json.loads(command(color="red", deferredfrom="3/1"))
    assert json.loads(decisions.forwards[0].value) == {**original, "forwardedfrom": "3/4"}


def test_forwarded_command_is_deferred() -> None:
    """The id of a forwarded command is not remembered, because the child partition decides the command by its id."""
    partition = Partition(partition_of=lambda key: 7, forward_target_of=lambda key: 5)
    verdict = partition.verdict(record(4, command()))
    assert (verdict["status"], verdict["reason"], verdict["movedto"]) == ("deferred", "MOVED", 5)
    assert verdict["due"] == "1970-01-01T00:00:05.000Z"
    assert not (partition.dedup_entries or partition.states or partition.events)


def test_forwarding_needs_room() -> None:
    limits = Deferrals(limits=DeferralLimits(command_bytes=1024 + len(command())))
    context: dict[str, Any] = {
        "partition_of": lambda key: 7,
        "forward_target_of": lambda key: 5,
        "deferrals": limits,
    }
    assert reason(command(), **context) == "WRONG_PARTITION"


def test_keys_without_target_are_not_forwarded() -> None:
    assert (
        reason(command(), partition_of=lambda key: 7, forward_target_of=lambda key: None) == "WRONG_PARTITION"
    )


def test_inherited_decision_names_its_partition() -> None:
    partition = Partition()
    partition.decide(record(0, command()))
    partition.dedup_entries = {
        key: replace(entry, partition=1) for key, entry in partition.dedup_entries.items()
    }
    assert partition.verdict(record(1, command()))["original"]["partition"] == 1


def test_null_expects_no_version() -> None:
    verdict = Partition().verdict(record(0, command(expectedversion=None)))
    assert verdict["status"] == "accepted" and "expected" not in verdict


#: Per check of docs/messages.md: the changes of a command that fails it, and the reason.
FAILED_CHECKS: dict[int, tuple[dict[str, Any], str]] = {
    1: ({"key": None}, "KEY_MISSING"),
    2: ({"source": ""}, "INVALID_ENVELOPE"),
    3: ({"key": b"b"}, "KEY_MISMATCH"),
    4: ({"key_partition": 9}, "WRONG_PARTITION"),
    5: ({"id": "used"}, "ID_REUSED"),
    6: ({"name": "Nope"}, "UNKNOWN_TYPE"),
    7: ({"data": {"m": 1}}, "INVALID_PAYLOAD"),
    8: ({"expectedversion": "07"}, "INVALID_EXPECTED_VERSION"),
    9: ({"expirytime": "1970-01-01T00:00:05Z"}, "EXPIRED"),
    10: ({"expectedversion": "exists"}, "NOT_FOUND"),
    11: ({"data": {"n": -1}}, "BUSINESS_RULE"),
}


@pytest.mark.parametrize(("first", "second"), list(combinations(FAILED_CHECKS, 2)))
def test_first_check_gives_the_reason(first: int, second: int) -> None:
    members = {"key": b"a", "key_partition": 3, **FAILED_CHECKS[second][0], **FAILED_CHECKS[first][0]}
    key, key_partition = members.pop("key"), members.pop("key_partition")
    partition = Partition(partition_of=lambda key: 3)
    partition.decide(record(0, command(id="used", data={"n": 0})))
    partition.context = {"partition_of": lambda key: key_partition}
    assert partition.verdict(record(1, command(**members), key))["reason"] == FAILED_CHECKS[first][1]


def test_expiry_is_exact_to_the_millisecond() -> None:
    """The later of both clocks counts. A command is still valid in the millisecond of its expiry."""
    expiry = datetime(2026, 11, 21, 1, 2, 3, 456_000, tzinfo=UTC)
    expiry_ms = 1_795_222_923_456
    for timestamp, now in ((expiry_ms, 0), (0, expiry_ms), (expiry_ms, expiry_ms)):
        check_expiry(expiry, timestamp, partial(int, now))
    for timestamp, now in ((expiry_ms + 1, 0), (0, expiry_ms + 1)):
        with pytest.raises(CheckFailed) as raised:
            check_expiry(expiry, timestamp, partial(int, now))
        assert raised.value.outcome_fields == {"decidedat": "2026-11-21T01:02:03.457Z"}


def test_longest_key_is_kept() -> None:
    for length, keeps_key in ((1024, True), (1025, False)):
        original = Record(0, 5, b"k" * length, b"v", [("a", b"1")])
        assert without_unsafe_parts(original) == Record(0, 5, original.key if keeps_key else None)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (command("Nope"), "tally.Nope is not a command of the aggregate, which has tally.Add, tally.Crash"),
        (command(expectedversion="07"), "not an expected version: '07'"),
        (command(datacontenttype="text/xml"), "the data must be JSON, not text/xml"),
    ],
)
def test_message_quotes_the_wrong_value(value: bytes, message: str) -> None:
    assert message in Partition().verdict(record(0, value))["message"]
