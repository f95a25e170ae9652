"""Commands as rows of a DataFrame."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cqrs_cli.core.messages.attributes import TEXT_COLUMNS
from cqrs_cli.core.messages.command import CommandEnvelope, command_or_none
from cqrs_cli.errors import PayloadUnavailableError
from cqrs_cli.kafka.records import records_of
from cqrs_cli.spark.rows import MessageList, RowMaker, envelope_arrays, text_column

if TYPE_CHECKING:
    import pyarrow

#: In place of an envelope, for a record that is not a command: all attributes are None.
_NO_ATTRIBUTES = SimpleNamespace(**dict.fromkeys(TEXT_COLUMNS.values()))


class CommandRows(RowMaker):
    """Rows of a commands topic.

    Without the option `type`, every record is a row, even if it is not a command. With a type, only commands of this
    type whose data are valid are rows.
    """

    kind = "commands"

    def _columns(self, partition: int, messages: MessageList) -> "tuple[MessageList, list[pyarrow.Array]]":
        envelopes = list(map(command_or_none, records_of(messages)))
        if self._cls is None:
            return messages, [*_command_columns(envelopes), text_column(map(_sent_data, envelopes))]
        assert self._aggregate is not None and self._wire_type is not None
        decode = self._aggregate.decode_command[self._wire_type]
        rows = []
        for message, envelope in zip(messages, envelopes, strict=True):
            if envelope is not None and envelope.type == self._wire_type:
                if envelope.datasha256 is not None:
                    raise PayloadUnavailableError(
                        f"{self._position_text(partition, message)}: payload {envelope.datasha256} is not available",
                        "restore it in payload_store; or leave option type out: its data is null then",
                    )
                command = _decode_or_none(decode, envelope)
                if command is not None:
                    rows.append((message, envelope, command))
        row_messages, row_envelopes, commands = ([row[part] for row in rows] for part in range(3))
        return row_messages, [
            *_command_columns(row_envelopes),
            *self.field_arrays(partition, row_messages, commands),
        ]


def _command_columns(envelopes: list[CommandEnvelope | None]) -> "list[pyarrow.Array]":
    expected = text_column(None if envelope is None else envelope.expected_text() for envelope in envelopes)
    return envelope_arrays([envelope or _NO_ATTRIBUTES for envelope in envelopes], expected)


def _sent_data(envelope: CommandEnvelope | None) -> str | None:
    """Return the data as sent. Return None if the record is not a command, its data are not UTF-8, or its payload is
    missing.
    """
    try:
        return None if envelope is None or envelope.datasha256 else bytes(envelope.data).decode()
    except UnicodeDecodeError:
        return None


def _decode_or_none(decode: Callable[[bytes], Any], envelope: CommandEnvelope) -> Any:
    """Return the decoded command; None for invalid data, which an owner does not accept either."""
    try:
        return decode(bytes(envelope.data))
    except Exception:  # the aggregate's own check may raise any error
        return None
