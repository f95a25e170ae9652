"""Prints a record of a topic, with any bytes in it, as JSON or as one line of text."""

import base64
from typing import Any

import msgspec

from cqrs_cli.cli.output import printable
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.kafka.position_notation import format_position


def record_document(partition: int, record: Record) -> dict[str, Any]:
    """Return `{"partition","offset","timestamp","key","message"}`, and `headers` unless they contain only the content
    type.

    A message that is not JSON is a text with `"encoding":"text"`, or, if it is not UTF-8, base64 with
    `"encoding":"base64"`. A key that is not UTF-8 has `"keyencoding":"base64"`. Of headers with the same name, the last
    one is returned.
    """
    message, encoding = _message(record.value)
    key, key_encoding = _text(record.key)
    document: dict[str, Any] = {
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": key,
        "message": message,
    }
    if encoding:
        document["encoding"] = encoding
    if key_encoding == "base64":
        document["keyencoding"] = key_encoding
    if record.headers and record.headers != HEADERS:
        document["headers"] = {name: _text(content)[0] for name, content in record.headers}
    return document


def _message(value: bytes | None) -> tuple[Any, str]:
    """Return a record's value for the document, and its encoding: empty for JSON, else "text" or "base64"."""
    if value is not None and value.strip() and _is_json(value):
        if b"\n" in value or b"\r" in value:  # JSON Lines: a document of several lines becomes one line
            value = msgspec.json.format(value, indent=-1)
        return msgspec.Raw(value), ""
    return _text(value)


def _is_json(value: bytes) -> bool:
    try:
        value.decode()
        msgspec.json.decode(value)
    except (ValueError, RecursionError):
        return False
    return True


def _text(content: bytes | None) -> tuple[str | None, str]:
    """Return bytes as text, and the encoding "text", or "base64" if they are not UTF-8; empty for None."""
    if content is None:
        return None, ""
    try:
        return content.decode(), "text"
    except UnicodeDecodeError:
        return base64.b64encode(content).decode(), "base64"


def record_line(partition: int, record: Record) -> str:
    """Return time, location, key and the main parts of the message, on one line without control characters."""
    time_text = rfc3339(record.timestamp)
    key = _readable_text(record.key)
    return printable(f"{time_text}  {format_position(partition, record.offset)}  {key}  {_summary(record)}")


def _summary(record: Record) -> str:
    headers = {name: _readable_text(content) for name, content in record.headers or []}
    parts = []
    if "cqrs.reason" in headers:
        parts.append(f"{headers['cqrs.reason']}: {headers.get('cqrs.message', '')}")
    if "ce_type" in headers:
        parts.append(headers["ce_type"])
    message = _json_object(record.value)
    if message is None or "type" not in message:
        return "  ".join([*parts, _readable_text(record.value)])
    data = message.get("data", {})
    if "aggregateversion" in message:
        parts.append(f"v{message['aggregateversion']}")
    parts.append(str(message["type"]))
    if isinstance(data, dict) and "status" in data:
        parts += [
            f"v{data.get('version')}",
            *(str(data[name]) for name in ("reason", "code", "message") if name in data),
        ]
    elif data is None and "datasha256" in message:
        parts.append(f"payload {message['datasha256']}")
    else:
        parts.append(msgspec.json.encode(data).decode())
    if "expectedversion" in message:
        parts.append(f"expects {message['expectedversion']}")
    return "  ".join(parts)


def _json_object(value: bytes | None) -> dict[str, Any] | None:
    try:
        document = msgspec.json.decode(value or b"")
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _readable_text(content: bytes | None) -> str:
    return "null" if content is None else content.decode(errors="backslashreplace")
