"""Opens codecs that decrypt or redact the personal fields of events, for readers such as `cqrs show`."""

from cqrs_cli.codec.encrypted_events import PersonalMembers, personal_members
from cqrs_cli.codec.event_decryptor import EventDecryptor, EventRedactor, KeySource
from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.keys_log import KafkaKeysLog
from cqrs_cli.kafka.topics.topics import Topics


def decrypting_codec(
    connection: Connection,
    topics: Topics,
    aggregate: Aggregate,
    only: str | None = None,
    max_key_age: float | None = None,
) -> RecordCodec:
    """Return the codec that downloads payloads and decrypts personal fields; the caller closes it.

    It reads the data keys from Kafka at the first encrypted field. Without a keyring it redacts the encrypted fields.
    `only`: the only aggregate id whose fields are decrypted; None for all. `max_key_age`: see `EventDecryptor`.
    """
    return decrypting_codec_of_members(connection, topics, personal_members(aggregate), only, max_key_age)


def decrypting_codec_of_members(
    connection: Connection,
    topics: Topics,
    members: PersonalMembers | None,
    only: str | None = None,
    max_key_age: float | None = None,
) -> RecordCodec:
    """Return the same codec as `decrypting_codec`, for a reader without the aggregate's code.

    `members`: the personal fields of the aggregate's events; None for an aggregate without personal fields.
    """
    if members is None:
        return connection.payload_codec()
    keys = KeySource(connection.keys, KafkaKeysLog(connection, topics))
    return RecordCodec(connection.payloads, EventDecryptor(topics.events, members, keys, only, max_key_age))


def redacting_codec(connection: Connection, aggregate: Aggregate) -> RecordCodec:
    """Return the codec that downloads payloads and redacts personal fields."""
    members = personal_members(aggregate)
    return RecordCodec(connection.payloads, None if members is None else EventRedactor(members))
