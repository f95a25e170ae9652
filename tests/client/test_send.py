from collections.abc import Iterator
from typing import Any, cast

import pytest

from cqrs_cli.client.compose import Composed
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.client.send import read_lines, send_all
from cqrs_cli.errors import UnavailableError, UsageError

GOOD = b'{"type":"a.B","subject":"s"}\n'


class FakeSender:
    """Delivers what it is given, unless it fails at a certain command."""

    def __init__(self, fails_at: int = -1) -> None:
        self.fails_at = fails_at
        self.delivered = 0
        self.stopped = False

    def send(self, composed: Composed) -> None:
        if self.delivered == self.fails_at:
            raise UnavailableError("no broker", "start one")
        self.delivered += 1

    def flush(self) -> None: ...

    def stop(self) -> None:
        self.stopped = True


def send(lines: list[bytes], sender: FakeSender) -> None:
    send_all(read_lines(lines, ["a"]), cast(CommandProducer, sender), sender.send)


def test_lines_are_sent_and_empty_ones_skipped() -> None:
    sender = FakeSender()
    send([GOOD, b"\n", GOOD, b"  "], sender)
    assert sender.delivered == 2


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (b"{", "line 3: Input data was truncated"),
        (b'{"type":"x.B","subject":"s"}', "line 3: no aggregate 'x'; known: a"),
    ],
)
def test_a_bad_line_is_named_and_how_many_were_sent(bad: bytes, complaint: str) -> None:
    with pytest.raises(UsageError) as refusal:
        send([GOOD, b"\n", bad, GOOD], FakeSender())
    assert refusal.value.message == complaint
    assert refusal.value.hint == "1 command was sent before it: mend it and send the rest"


def test_a_broker_that_is_lost_on_the_way_is_named_with_how_many_were_sent() -> None:
    sender = FakeSender(fails_at=2)
    with pytest.raises(UnavailableError, match="no broker; 2 commands were sent; start one"):
        send([GOOD] * 5, sender)
    assert sender.stopped


def test_ctrl_c_lets_what_is_on_its_way_arrive() -> None:
    def interrupted() -> Iterator[Any]:
        yield from read_lines([GOOD], ["a"])
        raise KeyboardInterrupt

    sender = FakeSender()
    with pytest.raises(KeyboardInterrupt):
        send_all(interrupted(), cast(CommandProducer, sender), sender.send)
    assert sender.stopped
