"""Notes that tasks send to the driver."""

from cqrs_cli.telemetry.datagrams import DatagramSender, send_message
from cqrs_cli.telemetry.task_messages import TaskMessages
from tests.support.waiting import eventually


def test_notes_arrive_while_tasks_work() -> None:
    """Each note arrives once, even if the task returns it again at its end."""
    received: list[str] = []
    with TaskMessages("127.0.0.1") as notes:
        foreign_sender = DatagramSender(notes.address)
        foreign_sender.send_body(b"something else")
        foreign_sender.close()
        for text in ("it waits", "it waits", "it goes on"):
            send_message(notes.address, text)
        while "it goes on" not in received:
            received += eventually(notes.take_new_messages)
        notes.add("it waits")
        assert notes.take_new_messages() == []
    assert received == ["it waits", "it goes on"]
