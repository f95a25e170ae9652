"""`verify --erased` searches the payload store, also its unused payloads, and given folders, such as a gateway's."""

from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.message_redaction import redact_message
from cqrs_cli.core.stored import StoredState
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.store import UNUSED_SUBFOLDER
from tests.core.personal.customer import Customer
from tests.scans.erased.planted import ANN, only_violation, verify_erased, write_shard
from tests.support.harness import TopicHarness

pytestmark = pytest.mark.kafka

CUSTOMER = Customer("Somebody", plan="free")


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize("subfolder", ["", UNUSED_SUBFOLDER], ids=["kept", "aside"])
def test_unreferenced_payload_is_searched(harness: TopicHarness, tmp_path: Path, subfolder: str) -> None:
    store = tmp_path / "payloads"
    folder = store / harness.topics.commands.removesuffix(".commands") / subfolder
    folder.mkdir(parents=True)
    (folder / ("0" * 64)).write_bytes(b" " * 9_000_000 + ANN.encode())
    harness.connection = replace(harness.connection, payloads=PayloadStoreAddress(store.as_uri()))
    expected = f"{folder.as_uri()}/{'0' * 64} byte 9000000: has an erased value in plain text"
    assert only_violation(harness) == expected


def write_gateway_folder(harness: TopicHarness, **states: Customer) -> Path:
    """Return the folder of a gateway with these states of one partition."""
    folder = harness.folder / "served" / "gateway"
    stored_states = {name: StoredState(1, 0, 0, encode_json(state)) for name, state in states.items()}
    write_shard(folder / harness.topics.commands.removesuffix(".commands") / "0", **stored_states)
    return folder


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({"ann": CUSTOMER}, "0: a shard has a plain value in the personal field 'name', of 'ann'"),
        ({"cid": Customer(ANN)}, "has an erased value in plain text"),
    ],
    ids=["field", "text"],
)
def test_gateway_with_values(harness: TopicHarness, states: dict[str, Customer], expected: str) -> None:
    """A value in a gateway's folder is found by its field, or by its text in any aggregate."""
    folder = write_gateway_folder(harness, **states)
    assert only_violation(harness, folder).endswith(expected)


def test_gateway_with_redacted_states(harness: TopicHarness) -> None:
    """The gateway stores redacted states: nothing of Ann is left, and Bob is not searched for."""
    report = verify_erased(
        harness, folder := write_gateway_folder(harness, ann=redact_message(CUSTOMER), bob=CUSTOMER)
    )
    assert (report.violation_count, report.locations) == (0, [str(folder)])
