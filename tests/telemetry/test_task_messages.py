"""Notes that tasks send to the driver."""

from cqrs_cli.observer import message_listener, observing, reached
from cqrs_cli.telemetry.datagrams import DatagramSender, send_message
from cqrs_cli.telemetry.listener import DatagramListener
from tests.support.idle_thread import IdleThread
from tests.support.waiting import eventually


def test_notes_arrive_while_tasks_work() -> None:
    """Each note arrives once, even if the task returns it again at its end."""
    received: list[str] = []
    with DatagramListener("127.0.0.1") as notes:
        foreign_sender = DatagramSender(notes.address)
        foreign_sender.send_body(b"something else")
        foreign_sender.close()
        for text in ("it waits", "it waits", "it goes on"):
            send_message(notes.address, text)
        while "it goes on" not in received:
            received += eventually(notes.take_new_messages)
        notes.add_message("it waits")
        assert notes.take_new_messages() == []
    assert received == ["it waits", "it goes on"]


def test_owner_sends_its_messages() -> None:
    thread = IdleThread()
    with DatagramListener("127.0.0.1") as listener, observing(message_listener(thread.add_note)):
        thread.sender = DatagramSender(listener.address)
        for text in ("it waits", "it waits"):
            reached("message", text=text)
        assert eventually(listener.take_new_messages) == thread.notes == ["it waits"]
        thread.sender.close()
