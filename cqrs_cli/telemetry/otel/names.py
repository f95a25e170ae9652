"""The names of spans and attributes: OpenTelemetry's semantic conventions for messaging, and the attributes of cqrs.

Source: semantic conventions 1.38, messaging and Kafka (status: development). `OTEL_SEMCONV_STABILITY_OPT_IN` is
honoured: with `messaging/dup` spans also have the names of version 1.24.
"""

import os
from typing import Any

#: The operation of a span: to send a message, or to process a message that was read.
SEND, PROCESS = "send", "process"

#: The kinds of spans.
PRODUCER, CONSUMER = "PRODUCER", "CONSUMER"

ERROR_TYPE = "error.type"
BATCH_SIZE = "messaging.batch.message_count"

#: The attributes of cqrs, in the order of docs/metrics.md.
TYPE = "cqrs.type"
STATUS = "cqrs.status"
REASON = "cqrs.reason"
CODE = "cqrs.code"
VERSION = "cqrs.version"
EVENTS = "cqrs.events"
DUE = "cqrs.due"
ATTEMPT = "cqrs.attempt"
PROCESS_MANAGER = "cqrs.process"
PROJECTION = "cqrs.projection"

#: Name of an attribute → its name in version 1.24 of the conventions.
_EARLIER_NAMES = {
    "messaging.operation.type": "messaging.operation",
    "messaging.destination.partition.id": "messaging.kafka.destination.partition",
    "messaging.kafka.offset": "messaging.kafka.message.offset",
}


def span_name(operation: str, topic: str) -> str:
    """Return the name of a span: `process bank_account.commands`."""
    return f"{operation} {topic}"


#: The attributes of a record's location, and of its key.
LOCATION = (
    "messaging.system",
    "messaging.destination.name",
    "messaging.destination.partition.id",
    "messaging.kafka.offset",
    "messaging.kafka.message.key",
)


def location_attributes(topic: str, partition: int, offset: int | None, key: str | None) -> dict[str, Any]:
    """Return the attributes of a record's location. `offset` is None if the record is not in the log yet."""
    values = ("kafka", topic, str(partition), offset, key)
    return {name: value for name, value in zip(LOCATION, values, strict=True) if value is not None}


def message_attributes(operation: str, id: str, correlation: str | None = None) -> dict[str, Any]:
    """Return the attributes of an operation on the message with this id."""
    attributes = {
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.message.id": id,
        "messaging.message.conversation_id": correlation,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def with_earlier_names(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes, with the names of version 1.24 too if the environment demands them."""
    opt_in = os.environ.get("OTEL_SEMCONV_STABILITY_OPT_IN", "")
    if "messaging/dup" not in [part.strip() for part in opt_in.split(",")]:
        return attributes
    earlier = {_EARLIER_NAMES[name]: value for name, value in attributes.items() if name in _EARLIER_NAMES}
    return attributes | earlier
