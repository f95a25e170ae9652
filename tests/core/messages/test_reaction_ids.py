"""The ids of a process manager's commands are reserved for it, because anyone can guess them."""

import msgspec
import pytest

from cqrs_cli.client.compose import complete_line
from cqrs_cli.client.envelope import Attributes, create_command
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.reaction_id import ReactionId, process_source, read_reaction_id
from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.errors import UsageError
from tests.core.deferral.batches import TIMESTAMP, decide, reasons, record
from tests.support.commands import document

ID = "checkout/x.order.events/0/7/0@1777593600000/0"


def test_guessed_id_is_refused() -> None:
    """The process manager's own command with this id is decided, although guessed commands came before."""
    guessed_command, own_command = record(id=ID), record(1, id=ID, source="/cqrs/process/checkout")
    decisions = decide(guessed_command, record(2, id=ID, source="/cqrs/process/other"), own_command)
    assert reasons(decisions) == ["INVALID_ENVELOPE", "INVALID_ENVELOPE", "accepted"]
    assert len(decisions.dead_letters) == 2


def test_guessed_id_is_not_deferred() -> None:
    due_time = "2999-01-01T00:00:00Z"
    own_command = record(1, id=ID, notbefore=due_time, source="/cqrs/process/checkout")
    decisions = decide(record(id=ID, notbefore=due_time), own_command)
    assert reasons(decisions) == ["INVALID_ENVELOPE", "NOT_YET"]


@pytest.mark.parametrize(
    ("source", "reason"), [("/t", "INVALID_ENVELOPE"), (process_source("checkout"), "accepted")]
)
def test_rule_applies_to_binary_mode(source: str, reason: str) -> None:
    attributes = {"specversion": "1.0", "id": ID, "source": source, "type": "way.Go", "subject": "a"}
    headers: Headers = [(f"ce_{name}", text.encode()) for name, text in attributes.items()]
    assert reasons(decide(Record(0, TIMESTAMP, b"a", b"{}", headers))) == [reason]


@pytest.mark.parametrize(
    "id",
    [
        "checkout/order.events/0/7/0@7",
        "checkout/order.events/0/7/0@07/0",
        "checkout/order.events/0/7/0@7/00",
        "checkout/order.commands/0/7/0@7/0",
        "a b/order.events/0/7/0@7/0",
        "order.events/0/7/0@7/0",
        "me@example.org",
    ],
)
def test_other_ids_are_not_reserved(id: str) -> None:
    assert read_reaction_id(id) is None
    assert reasons(decide(record(id=id))) == ["accepted"]


def test_id_is_read_as_it_is_written() -> None:
    reaction_id = ReactionId("checkout", "x.order.events", "0/7/0", 1777593600000, 0)
    assert (str(reaction_id), read_reaction_id(ID)) == (ID, reaction_id)
    assert reaction_id.id_prefix == ID.removesuffix("/0")


def test_clients_fail_before_sending() -> None:
    attributes = Attributes(id=ID)
    with pytest.raises(
        UsageError, match=r"--id: the id 'checkout/.*' has the form of an id of process manager checkout"
    ):
        create_command("way", "a", "way.Go", b"{}", "/cqrs/gateway", attributes)
    assert create_command("way", "a", "way.Go", b"{}", process_source("checkout"), attributes).id == ID


@pytest.mark.parametrize("source", [{}, {"source": "/t"}])
def test_lines_of_files_are_checked(source: dict[str, str]) -> None:
    line = {"id": ID, "type": "way.Go", "subject": "a"} | source
    with pytest.raises(ValueError, match="use another id"):
        complete_line(msgspec.json.encode(line))


def test_commands_of_processes_may_be_resent() -> None:
    line = document("way.Go", "a", ID) | {"source": process_source("checkout")}
    assert complete_line(msgspec.json.encode(line)).id == ID
    assert read_command(Record(0, TIMESTAMP, b"a", msgspec.json.encode(line), [*HEADERS])).id == ID
