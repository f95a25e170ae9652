"""The tree of `cqrs trace`."""

from rich.console import Console

from cqrs_cli.cli.render.queries.trace import trace_text
from cqrs_cli.client.queries.message_trees import message_trees
from cqrs_cli.client.queries.messages import message_reader
from cqrs_cli.core.messages.record import Headers, Record
from tests.support.commands import command


def tree_of(key: bytes | None, value: bytes | None, headers: Headers | None) -> str:
    """Return the tree of the single command `c-1`, at offset 7."""
    message = message_reader({"c-1"})("commands", "bank_account", 0, Record(7, 0, key, value, headers))
    assert message is not None
    console = Console(width=200)
    with console.capture() as capture:
        console.print(trace_text(message_trees([message])))
    return capture.get()


def test_tree_names_actor_and_action() -> None:
    sent = command("bank_account.Close", "acc-1", "c-1", actor="ann", action="retry")
    assert "Close {}  id c-1  0@7  retry by ann" in tree_of(sent.key, sent.value, sent.headers)


def test_data_of_binary_mode_names_no_actor() -> None:
    attributes = {
        "specversion": "1.0",
        "id": "c-1",
        "type": "bank_account.Close",
        "source": "/web",
        "subject": "acc-1",
        "action": "retry",
    }
    headers: Headers = [("content-type", b"application/json")]
    headers += [(f"ce_{name}", text.encode()) for name, text in attributes.items()]
    tree = tree_of(b"acc-1", b'{"actor":"eve"}', headers)
    assert "retry" in tree
    assert "by eve" not in tree
