"""Notes of tasks on their way to the driver."""

from cqrs_cli.telemetry.datagrams import DatagramSender, tell_driver
from cqrs_cli.telemetry.notes import TaskNotes
from tests.support.waiting import eventually


def test_notes_come_while_tasks_work() -> None:
    """Each is said once, also where the task hands it on at its end."""
    said: list[str] = []
    looks: list[int] = []
    with TaskNotes("127.0.0.1") as notes:
        watching = notes.saying(looks.append, said.append)
        stranger = DatagramSender(notes.address)
        stranger.send_body(b"something else")
        stranger.close()
        for text in ("it waits", "it waits", "it goes on"):
            tell_driver(notes.address, text)
        eventually(lambda: watching(1) or said[-1:] == ["it goes on"])
        notes.say_once(said.append, "it waits")
    assert said == ["it waits", "it goes on"] and set(looks) == {1}
