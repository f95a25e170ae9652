"""Commands that count as sent by a process manager, in both CloudEvents modes and in any spelling of their JSON."""

import json

import msgspec
import pytest

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.reaction_id import process_source
from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.following.processes.sent_commands import ProcessCommands, command_digest
from cqrs_cli.proof.documents import document_redactor
from tests.core.personal.customer import CUSTOMER
from tests.support.commands import document

ORIGIN = "checkout/order.events/0/7/0@7"
SENT_COMMAND = json.dumps(
    document("payment.Request", "o-7", f"{ORIGIN}/0", source=process_source("checkout"))
).encode()
BINARY: Headers = [
    (f"ce_{name}", text.encode())
    for name, text in {
        **{"specversion": "1.0", "id": f"{ORIGIN}/0", "source": process_source("checkout")},
        **{"type": "payment.Request", "subject": "o-7"},
    }.items()
]


def origins_of(value: bytes | None, headers: Headers | None = None) -> list[str]:
    """Return the origins of the commands that count as sent by `checkout`."""
    sent = ProcessCommands("checkout")
    sent.add_if_sent(Record(5, 0, b"o-7", value, headers or [*HEADERS]), "payment.commands", 0)
    return [id_prefix for by_prefix in sent.locations.values() for id_prefix in by_prefix]


@pytest.mark.parametrize("escape", [b"\\/", b"\\u002f", b"\\u002F"])
def test_escapes_hide_no_command(escape: bytes) -> None:
    assert (
        origins_of(SENT_COMMAND)
        == origins_of(SENT_COMMAND.replace(b"/cqrs/process/", b"/cqrs/process/".replace(b"/", escape)))
        == [ORIGIN]
    )
    assert origins_of(SENT_COMMAND.replace(b"checkout", b"\\u0063heckout")) == [ORIGIN]


def test_modes_hide_no_command() -> None:
    assert origins_of(b"{}", BINARY) == [ORIGIN]
    assert origins_of(SENT_COMMAND, [("content-type", b"application/cloudevents+json; charset=utf-8")]) == [
        ORIGIN
    ]


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"\xff\\",
        SENT_COMMAND.replace(b"/process/checkout", b"/process/other"),
        SENT_COMMAND.replace(b'"specversion"', b'"deferredfrom": "0/0", "specversion"'),
        SENT_COMMAND.replace(b"@7/0", b"@7"),
    ],
)
def test_other_commands_do_not_count(value: bytes | None) -> None:
    """A command that an owner has resubmitted does not count either."""
    assert origins_of(value) == []


def test_key_is_part_of_the_command() -> None:
    digests = {command_digest("t", key, SENT_COMMAND) for key in (b"o-7", b"o-8", None)}
    assert len(digests) == 3


@pytest.mark.covers("reacted-once")
def test_personal_fields_do_not_count() -> None:
    """Personal fields do not count for a command's digest, because `react` gets redacted values after an erasure."""
    documents = [
        json.dumps({"type": "customer.Order", "data": {"amount": amount, "street": street}}).encode()
        for amount, street in [(1, ["Elm"]), (1, []), (2, ["Elm"])]
    ]
    elm, erased, other_amount = (
        command_digest("t", b"c", document, document_redactor(CUSTOMER)) for document in documents
    )
    assert elm == erased != other_amount
    assert len({command_digest("t", b"c", document) for document in documents}) == 3


def test_forwarded_copy_is_no_second_one() -> None:
    """A command forwarded twice counts once. If its original was deleted, the copy counts as the original."""
    sent = ProcessCommands("checkout")
    record = Record(5, 0, b"o-7", SENT_COMMAND, [*HEADERS])
    sent.add_if_sent(record, "payment.commands", 0)
    (first,) = sent.locations["order.events"][ORIGIN][0]
    for partition, forwarded_from in ((1, "0/5"), (3, "1/5")):
        sent.add_if_sent(forward_copy(record, forwarded_from), "payment.commands", partition)
    assert sent.locations["order.events"][ORIGIN][0] == [first]
    sent.add_if_sent(forward_copy(record, "2/9"), "payment.commands", 3)
    assert [location.digest for location in sent.locations["order.events"][ORIGIN][0]] == [first.digest] * 2


def test_altered_copy_is_a_second_one() -> None:
    sent = ProcessCommands("checkout")
    record = Record(5, 0, b"o-7", SENT_COMMAND, [*HEADERS])
    other = msgspec.structs.replace(record, value=SENT_COMMAND.replace(b'"data": {}', b'"data": {"n": 9000}'))
    assert other != record
    for partition, copy in ((0, record), (1, forward_copy(other, "0/5"))):
        sent.add_if_sent(copy, "payment.commands", partition)
    assert len(sent.locations["order.events"][ORIGIN][0]) == 2


def forward_copy(record: Record, forwarded_from: str) -> Record:
    value = (record.value or b"")[:-1] + b',"forwardedfrom":"%s"}' % forwarded_from.encode()
    return msgspec.structs.replace(record, value=value)
