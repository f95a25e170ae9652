import codecs
from collections.abc import Iterable, Iterator
from typing import Any, cast

import pytest

from cqrs_cli import registry
from cqrs_cli.client.envelope import ReadyCommand
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.client.send import SentCommands, read_lines, send_all
from cqrs_cli.errors import UnavailableError, UsageError
from cqrs_cli.kafka.topics.topics import Topics
from tests.support import ROOT

VALID_LINE = b'{"type":"bank_account.Close","subject":"s"}\n'
AGGREGATES = {"bank_account": registry.load("bank_account", "aggregates", ROOT)}


class FakeProducer:
    """A producer that delivers all commands, or fails at a certain command."""

    def __init__(self, fails_at: int = -1) -> None:
        self.fails_at = fails_at
        self.sent_count = self.delivered_count = 0
        self.discarded = False

    def send(self, topic: str, key: bytes, value: bytes) -> None:
        if self.delivered_count == self.fails_at:
            raise UnavailableError("no broker", "start one")
        self.sent_count += 1
        self.delivered_count += 1

    def flush(self) -> None: ...

    def discard_queued(self) -> None:
        self.discarded = True


def send(commands: Iterable[ReadyCommand], producer: FakeProducer) -> SentCommands:
    return send_all(
        cast(CommandProducer, producer),
        {"bank_account": Topics("bank_account")},
        commands,
        lambda count: None,
    )


def test_empty_lines_are_skipped() -> None:
    sent_commands = send(read_lines([VALID_LINE, b"\n", VALID_LINE, b"  "], AGGREGATES), FakeProducer())
    assert (sent_commands.total, sent_commands.aggregates) == (2, {"bank_account": 2})


@pytest.mark.parametrize(
    ("invalid_line", "message"),
    [
        (b"{", "line 3: Input data was truncated"),
        (b'{"type":"x.B","subject":"s"}', "line 3: no aggregate 'x'; known: bank_account"),
        (b'{"type":"bank_account.Shut","subject":"s"}', "line 3: bank_account.Shut is not a command"),
        (
            b'{"type":"bank_account.Close","subject":"s","data":{"why":1}}',
            "line 3: Object contains unknown field `why`",
        ),
        (
            b'{"type":"bank_account.Close","subject":"s","expectedversion":"x"}',
            "line 3: not an expected version: 'x'",
        ),
        (
            b'{"type":"bank_account.Close","subject":"s","expirytime":"noon"}',
            "line 3: Invalid RFC3339 encoded datetime - at `$.expirytime`",
        ),
    ],
)
def test_invalid_line_is_named(invalid_line: bytes, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        send(read_lines([VALID_LINE, b"\n", invalid_line, VALID_LINE], AGGREGATES), FakeProducer())
    assert raised.value.message.startswith(message)
    assert raised.value.hint == "1 command was sent before it: correct the line, and send the remaining lines"


def test_lost_brokers_name_the_sent_count() -> None:
    producer = FakeProducer(fails_at=2)
    with pytest.raises(UnavailableError, match="no broker; 2 commands were sent; start one"):
        send(read_lines([VALID_LINE] * 5, AGGREGATES), producer)
    assert producer.discarded


def test_ctrl_c_discards_the_queue() -> None:
    def interrupted_commands() -> Iterator[Any]:
        yield from read_lines([VALID_LINE], AGGREGATES)
        raise KeyboardInterrupt

    producer = FakeProducer()
    with pytest.raises(KeyboardInterrupt):
        send(interrupted_commands(), producer)
    assert producer.discarded


def test_byte_order_mark_is_named() -> None:
    with pytest.raises(UsageError, match="line 1 begins with a byte order mark"):
        list(read_lines([codecs.BOM_UTF8 + VALID_LINE], AGGREGATES))


def test_encoding_of_a_line_is_named() -> None:
    with pytest.raises(UsageError, match="line 2 is not UTF-8"):
        list(read_lines([VALID_LINE, '{"type":"ü"}'.encode("latin-1")], AGGREGATES))
