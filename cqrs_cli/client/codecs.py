"""Codecs of readers with the code of an aggregate: they decrypt or redact the personal fields of its events."""

from cqrs_cli.codec.encrypted_events import PersonalMembers
from cqrs_cli.codec.event_decryptor import DecryptorKeys, EventDecryptor, EventRedactor
from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.keys_log import KafkaKeysLog
from cqrs_cli.kafka.topics.topics import Topics


def decrypting_codec(
    connection: Connection,
    topics: Topics,
    members: PersonalMembers | None,
    only: str | None = None,
    max_key_age: float | None = None,
) -> RecordCodec:
    """Return the codec that downloads payloads and decrypts personal fields; close it.

    Without a keyring it redacts the encrypted fields. It reads the data keys at the first encrypted field.
    `members`: None for an aggregate without personal fields. `only` and `max_key_age`: see `EventDecryptor`.
    """
    if members is None:
        return connection.payload_codec()
    keys = (
        None if connection.keys is None else DecryptorKeys(connection.keys, KafkaKeysLog(connection, topics))
    )
    return RecordCodec(connection.payloads, EventDecryptor(topics.events, members, keys, only, max_key_age))


def redacting_codec(connection: Connection, members: PersonalMembers | None) -> RecordCodec:
    """Return the codec that downloads payloads and redacts personal fields.

    `members`: None for an aggregate without personal fields.
    """
    return RecordCodec(connection.payloads, None if members is None else EventRedactor(members))
