"""Messages are linked by their ids, into trees."""

import re
from typing import Any

import msgspec
import pytest

from cqrs_cli.client.queries.message_trees import CommandNode, message_trees
from cqrs_cli.client.queries.messages import LinkedMessage, message_reader
from cqrs_cli.core.messages.drop_record import DROP_HEADERS, DropRecord
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.outcome import dead_letter
from cqrs_cli.core.messages.record import Headers, Record

CORRELATION_IDS = {"order-9"}


def record(offset: int, document: Any, headers: Headers | None = None, time: int = 0) -> Record:
    value = document if isinstance(document, bytes) else msgspec.json.encode(document)
    return Record(offset, time or offset, b"s", value, [*HEADERS] if headers is None else headers)


def command(offset: int, id: str, time: int = 0, **members: Any) -> Record:
    document = {"specversion": "1.0", "id": id, "source": "/t", "type": "order.Place", "subject": "s"}
    return record(offset, {**document, **members}, time=time)


def outcome(offset: int, command_offset: int, **members: Any) -> Record:
    data = {"status": "accepted", "version": 1, "events": 1, "partition": 0, "offset": command_offset}
    members["data"] = data | members.get("data", {})
    return record(offset, {"id": f"0/{command_offset}", "type": "order.Place.accepted", **members})


def event(
    offset: int, command_offset: int, cause: str, correlation: str = "order-9", index: int = 0
) -> Record:
    return record(
        offset,
        {
            "id": f"0/{command_offset}/{index}",
            "type": "order.Placed",
            "subject": "s",
            "time": "2026-01-01T00:00:00.000Z",
            "causationid": cause,
            "correlationid": correlation,
            "aggregateversion": 1 + index,
            "eventindex": index,
            "eventcount": 1,
        },
    )


def read_message(
    kind: str, message_record: Record, ids: set[str] = CORRELATION_IDS, aggregate: str = "order"
) -> LinkedMessage | None:
    return message_reader(ids)(kind, aggregate, 0, message_record)


def messages(*records: tuple[str, str, Record]) -> list[LinkedMessage]:
    """Return the messages of (aggregate, kind, record)."""
    linked = [read_message(kind, item, aggregate=aggregate) for aggregate, kind, item in records]
    return [item for item in linked if item is not None]


def id_tree(node: CommandNode) -> Any:
    """Return a tree as nested lists of ids."""
    command_id = node.command.id if node.command else "?"
    child_commands = [id_tree(child) for child in node.commands]
    return [
        command_id,
        *([event.message.id, *map(id_tree, event.commands)] for event in node.events),
        *child_commands,
    ]


def test_outcome_and_events_follow_their_command() -> None:
    result = message_trees(
        messages(
            ("order", "events", event(5, 3, "a", index=1)),
            ("order", "events", event(4, 3, "a")),
            ("order", "outcomes", outcome(9, 3, causationid="a", correlationid="order-9")),
            ("order", "commands", command(3, "a", correlationid="order-9")),
        )
    )
    (root,) = result.roots
    assert id_tree(root) == ["a", ["0/3/0"], ["0/3/1"]]
    assert root.outcome is not None
    assert result.correlations == ["order-9"]


def test_commands_follow_their_events() -> None:
    result = message_trees(
        messages(
            ("payment", "commands", command(7, "b", causationid="0/3/0", correlationid="order-9")),
            ("order", "commands", command(3, "a", correlationid="order-9")),
            ("order", "events", event(4, 3, "a")),
            ("payment", "events", event(9, 7, "b")),
            ("stock", "commands", command(8, "c", causationid="b", correlationid="order-9")),
        )
    )
    assert [id_tree(root) for root in result.roots] == [["a", ["0/3/0", ["b", ["0/7/0"], ["c"]]]]]


def test_cause_is_the_latest_event() -> None:
    """Each topic has an event 0/3/0. The cause is the last such event before the command."""
    result = message_trees(
        messages(
            ("order", "commands", command(3, "a", time=10, correlationid="order-9")),
            ("order", "events", event(4, 3, "a")),
            ("stock", "commands", command(3, "b", time=20, correlationid="order-9")),
            ("stock", "events", event(4, 3, "b")),
            ("payment", "commands", command(1, "c", time=30, causationid="0/3/0", correlationid="order-9")),
        )
    )
    assert [id_tree(root) for root in result.roots] == [["a", ["0/3/0"]], ["b", ["0/3/0", ["c"]]]]


@pytest.mark.parametrize("causes", [("a", "b"), ("b", "a")])
def test_a_circle_of_causes_ends(causes: tuple[str, str]) -> None:
    first = command(1, "a", causationid=causes[0], correlationid="order-9")
    second = command(2, "b", causationid=causes[1], correlationid="order-9")
    result = message_trees(messages(("order", "commands", first), ("order", "commands", second)))
    ids = re.findall("[ab]", str([id_tree(root) for root in result.roots]))
    assert sorted(ids) == ["a", "b"]


def test_outcome_without_command_is_a_root() -> None:
    orphan_outcome = outcome(9, 3, causationid="a", correlationid="order-9", subject="s")
    (root,) = message_trees(messages(("order", "outcomes", orphan_outcome))).roots
    assert (root.position, root.command, root.outcome is not None) == (("order", 0, 3), None, True)


def test_outcome_without_id_finds_its_command() -> None:
    """An outcome without an id is linked by the command's partition and offset."""
    dead_letter_record = record(2, b"", [("cqrs.reason", b"TOO_LARGE"), ("cqrs.offset", b"3")])
    anonymous = {"status": "failed", "reason": "TOO_LARGE", "events": 0}
    result = message_trees(
        messages(
            ("order", "commands", command(3, "a", correlationid="order-9")),
            ("order", "outcomes", outcome(9, 3, data=anonymous)),
            ("order", "outcomes", outcome(10, 4, data=anonymous)),
            ("order", "dead-letters", dead_letter_record),
        )
    )
    (root,) = result.roots
    assert root.outcome is not None
    assert root.dead_letter is not None


def test_dead_letters_are_read_as_commands() -> None:
    original = command(3, "a", correlationid="order-9")
    dead_letter_record = Record(
        2, 2, b"s", original.value, [*HEADERS, ("cqrs.offset", b"3"), ("cqrs.reason", b"X")]
    )
    message = read_message("dead-letters", dead_letter_record)
    assert message is not None
    assert (message.id, message.correlation, message.command_position) == ("a", "order-9", ("order", 0, 3))


def test_binary_commands_are_read() -> None:
    attributes = {"specversion": "1.0", "id": "a", "source": "/t", "type": "order.Place", "subject": "s"}
    headers: Headers = [(f"ce_{name}", text.encode()) for name, text in attributes.items()]
    result = read_message("commands", record(3, b"{}", [*headers, ("ce_correlationid", b"order-9")]))
    assert result is not None
    assert result.concerns(CORRELATION_IDS)


def test_escaped_ids_are_found() -> None:
    escaped = record(
        3,
        b'{"specversion":"1.0","id":"a","source":"/","type":"o.P","subject":"s","correlationid":"\\u006frder-9"}',
    )
    result = read_message("commands", escaped)
    assert result is not None
    assert result.concerns(CORRELATION_IDS)


def test_other_messages_are_skipped() -> None:
    assert read_message("commands", command(3, "a", correlationid="order-8")) is None
    assert read_message("events", event(3, 1, "a", "order-8")) is None
    assert read_message("outcomes", record(3, b"order-9, but not an outcome")) is None


def test_ids_of_events_are_not_searched() -> None:
    """Ids of events and outcomes exist in every topic, so they are not searched."""
    result = read_message("events", event(4, 3, "a"), {"0/3/0"})
    assert result is not None
    assert not result.concerns({"0/3/0"})
    assert result.concerns({"a"})


def test_process_commands_name_their_topic() -> None:
    """Two topics have an event with this id. The id of a process manager's command contains the topic."""
    process_command_id = "checkout/x.order.events/0/3/0@7/0"
    process_attributes: dict[str, Any] = {"source": "/cqrs/process/checkout", "causationid": "0/3/0"}
    result = message_trees(
        messages(
            ("order", "commands", command(3, "a", correlationid="order-9")),
            ("order", "events", event(4, 3, "a")),
            ("reorder", "commands", command(3, "b", time=5, correlationid="order-9")),
            ("reorder", "events", event(6, 3, "b")),
            (
                "payment",
                "commands",
                command(9, process_command_id, **process_attributes, correlationid="order-9"),
            ),
        )
    )
    assert [id_tree(node) for node in result.roots] == [
        ["a", ["0/3/0", [process_command_id]]],
        ["b", ["0/3/0"]],
    ]


@pytest.mark.parametrize(
    ("offset", "has_letter", "is_dropped"), [(3, False, True), (3, True, False), (6, False, False)]
)
def test_drop_explains_missing_letters(offset: int, has_letter: bool, is_dropped: bool) -> None:
    """After a crash between the record of the drop and the deletion, both exist."""
    drop = DropRecord(
        actor="ann", before="2026-01-01T00:00:00.000Z", letters=2, first_command=2, last_command=5
    )
    place = command(offset, "a", correlationid="order-9")
    letter = dead_letter(place, "order.commands", 0, "UNKNOWN_TYPE", "")
    failed = {"type": "order.Place.failed", "causationid": "a", "correlationid": "order-9"}
    (node,) = message_trees(
        messages(
            ("order", "commands", place),
            ("order", "outcomes", outcome(1, offset, **failed)),
            ("order", "dead-letters", record(8, drop.encode(), DROP_HEADERS)),
            *([("order", "dead-letters", record(0, letter.value, letter.headers))] if has_letter else []),
        )
    ).roots
    assert (node.dead_letter is not None, node.drop is not None) == (has_letter, is_dropped)
