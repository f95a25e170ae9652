"""Notes that tasks send to the driver."""

from cqrs_cli.telemetry.datagrams import DatagramSender, tell_driver
from cqrs_cli.telemetry.task_messages import TaskNotes
from tests.support.waiting import eventually


def test_notes_come_while_tasks_work() -> None:
    """Each note arrives once, even if the task returns it again at its end."""
    said: list[str] = []
    with TaskNotes("127.0.0.1") as notes:
        stranger = DatagramSender(notes.address)
        stranger.send_body(b"something else")
        stranger.close()
        for text in ("it waits", "it waits", "it goes on"):
            tell_driver(notes.address, text)
        while "it goes on" not in said:
            said += eventually(notes.fresh)
        notes.take("it waits")
        assert notes.fresh() == []
    assert said == ["it waits", "it goes on"]
