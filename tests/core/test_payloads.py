"""Commands with data in a payload store are decided as if the record contained the data, or fail."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.checks import read_data
from cqrs_cli.core.deferral.document import structured_document
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.payload_reference import (
    PayloadReference,
    find_reference,
    reference_to,
    with_payload_data,
    with_reference,
)
from cqrs_cli.core.messages.reasons import CheckFailed
from cqrs_cli.core.messages.record import Headers, Record
from tests.core.tally import AGGREGATE, Partition, command, record

Payloads = dict[PayloadReference, bytes | str]


def command_with_reference(data: bytes = b'{"n":1}', id: str = "1") -> bytes:
    """Return a command whose data are a payload."""
    return with_reference(command(id=id), "tally", reference_to(data))


def payloads_of(*datas: bytes) -> Payloads:
    return {reference_to(data): data for data in datas}


@given(numbers=st.lists(st.integers(-5, 5), max_size=8), large=st.sets(st.integers(0, 7)))
def test_payloads_are_decided_as_data(numbers: list[int], large: set[int]) -> None:
    """Events, outcomes and states do not depend on the storage of the data. Only the fingerprints do."""
    inline_records, reference_records, payloads = [], [], {}
    for offset, number in enumerate(numbers):
        data = json.dumps({"n": number}).encode()
        value = command(id=str(offset), data={"n": number})
        inline_records.append(record(offset, value))
        if offset in large:
            payloads[reference_to(data)] = data
            value = with_reference(value, "tally", reference_to(data))
        reference_records.append(record(offset, value))
    inline_partition, payload_partition = Partition(), Partition(payloads=payloads)
    inline_partition.decide(*inline_records)
    payload_partition.decide(*reference_records)
    assert (
        payload_partition.events == inline_partition.events
        and payload_partition.states == inline_partition.states
    )

    def verdicts(partition: Partition) -> list[Any]:
        decoded = [json.loads(value)["data"] for value, _, _ in partition.outcomes]
        return [{**verdict, "fingerprint": None} for verdict in decoded]

    assert verdicts(payload_partition) == verdicts(inline_partition)


@pytest.mark.covers("payloads")
def test_unavailable_payload_fails_the_command() -> None:
    """The dead letter has the command byte for byte, the state does not change, and the id may be retried."""
    value, reference = command_with_reference(), reference_to(b'{"n":1}')
    partition = Partition(payloads={reference: "it is missing"})
    verdict = partition.verdict(record(0, value))
    assert (verdict["status"], verdict["reason"]) == ("failed", "PAYLOAD_UNAVAILABLE")
    assert verdict["message"] == f"payload {reference.sha256}: it is missing"
    assert not partition.states and partition.dead_letters[0].value == value
    partition.context["payloads"] = payloads_of(b'{"n":1}')
    assert partition.verdict(record(1, value))["status"] == "accepted"


@pytest.mark.covers("payloads")
def test_owner_without_store_decides_nothing() -> None:
    assert Partition().verdict(record(0, command_with_reference()))["reason"] == "PAYLOAD_UNAVAILABLE"


def test_payload_must_fit_its_type() -> None:
    partition = Partition(payloads=payloads_of(b'{"n":"one"}'))
    assert partition.verdict(record(0, command_with_reference(b'{"n":"one"}')))["reason"] == "INVALID_PAYLOAD"


def test_repeated_reference_is_a_duplicate() -> None:
    partition = Partition(payloads=payloads_of(b'{"n":1}', b'{"n":2}'))
    verdicts = [partition.verdict(record(offset, command_with_reference())) for offset in range(2)]
    assert [verdict["status"] for verdict in verdicts] == ["accepted", "duplicate"]
    assert partition.verdict(record(2, command_with_reference(b'{"n":2}')))["reason"] == "ID_REUSED"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"data": None, "dataref": "elsewhere"}, "dataref without datasha256"),
        ({"datasha256": "a" * 64, "datasize": 1}, "both data and datasha256"),
        ({"data": None, "datasha256": "A" * 64, "datasize": 1}, "datasha256 must be a SHA-256"),
        ({"data": None, "datasha256": "a" * 64}, "datasize must be a number"),
        ({"data": None, "datasha256": "a" * 64, "datasize": 2**40}, "datasize must be a number"),
        ({"data": None, "datasha256": "a" * 64, "datasize": 1.5}, "datasize"),
    ],
)
def test_invalid_references_are_refused(attributes: dict[str, Any], message: str) -> None:
    document = {**json.loads(command()), **attributes}
    verdict = Partition().verdict(record(0, json.dumps(document).encode()))
    assert verdict["reason"] == "INVALID_ENVELOPE" and message in verdict["message"]


def test_dataref_with_data_is_ignored() -> None:
    assert Partition().verdict(record(0, command(dataref="s3://elsewhere/1")))["status"] == "accepted"


def binary_record(data: bytes, *omitted: str) -> Record:
    attributes = {**json.loads(command()), **reference_to(data).attributes("tally")}
    attributes = {name: value for name, value in attributes.items() if name not in omitted}
    headers: Headers = [
        (f"ce_{name}", str(value).encode()) for name, value in attributes.items() if name != "data"
    ]
    return Record(0, 5000, b"a", b"", headers)


def test_binary_commands_have_references_in_headers() -> None:
    partition = Partition(payloads=payloads_of(b'{"n":1}'))
    assert partition.verdict(binary_record(b'{"n":1}', "dataref"))["status"] == "accepted"
    assert partition.verdict(binary_record(b'{"n":1}'))["status"] == "duplicate"
    verdict = partition.verdict(binary_record(b'{"n":1}', "datasha256"))
    assert verdict["reason"] == "INVALID_ENVELOPE" and "dataref without datasha256" in verdict["message"]


@pytest.mark.parametrize(
    "deferred", [record(0, command_with_reference()), binary_record(b'{"n":1}')], ids=["structured", "binary"]
)
def test_deferred_command_keeps_its_reference(deferred: Record) -> None:
    document = structured_document(deferred, read_command(deferred))
    assert find_reference(document) == reference_to(b'{"n":1}')
    assert read_command(record(1, document)).reference() == reference_to(b'{"n":1}')


def test_unresolved_reference_is_no_command() -> None:
    """A reader that ignores the payload decodes its reference, which fits no class."""
    envelope = read_command(record(0, command_with_reference()))
    with pytest.raises(ValueError, match="object"):
        AGGREGATE.decode_command["tally.Add"](envelope.data)
    with pytest.raises(CheckFailed):
        read_data(AGGREGATE, AGGREGATE.decode_command["tally.Add"], envelope, {}, None)


def partition_with_payloads(**context: Any) -> Partition:
    """Decide one command with three events, each of which becomes a payload."""
    partition = Partition(payload_threshold=6, **context)
    partition.decide(record(0, command(data={"n": 3})))
    return partition


@pytest.mark.covers("payloads")
def test_large_events_become_payloads() -> None:
    """Large events are folded and counted as other events. Their payload is returned once, to be uploaded first."""
    partition, inline_partition = partition_with_payloads(), Partition()
    inline_partition.decide(record(0, command(data={"n": 3})))
    assert (partition.states, partition.last_outcome()) == (
        inline_partition.states,
        inline_partition.last_outcome(),
    )
    data = b'{"n":1}'
    assert [find_reference(value) for value, _, _ in partition.events] == [reference_to(data)] * 3
    assert {json.loads(value)["dataref"] for value, _, _ in partition.events} == {
        f"tally/{reference_to(data).sha256}"
    }
    assert partition.payloads == {reference_to(data): data}
    documents = [json.loads(with_payload_data(value, partition.payloads)) for value, _, _ in partition.events]
    assert documents == [json.loads(value) for value, _, _ in inline_partition.events]


def test_payloads_of_events_are_bounded() -> None:
    limit = 3 * len(b'{"n":1}')
    assert len(partition_with_payloads(max_payload=limit).events) == 3
    partition = partition_with_payloads(max_payload=limit - 1)
    assert partition.last_outcome()["data"]["reason"] == "TOO_LARGE"
    assert not partition.events and not partition.payloads and not partition.states


def test_payloads_count_as_memory_of_a_batch() -> None:
    large, small = Partition(payload_threshold=6).batch(), Partition().batch()
    for batch in (large, small):
        batch.decide_piece([record(0, command(data={"n": 3}))])
    events = sum(len(value) for value, _, _ in large.decisions.events)
    assert large.event_bytes == events + len(b'{"n":1}')
    assert small.event_bytes == sum(len(value) for value, _, _ in small.decisions.events)
