"""The data keys of a simulation (`cqrs send --dry-run`), which decides commands without writing to Kafka."""

from collections.abc import Mapping

from cqrs_cli.codec.encrypted_events import decrypt_event, personal_members, read_encrypted_event
from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.personal.encryption import DataKey


class SimulationKeys:
    """The keys in the keys topic, read by `codec`, and the new keys of simulated commands, which no topic contains."""

    def __init__(self, codec: RecordCodec, aggregate: Aggregate) -> None:
        self._codec, self._members = codec, personal_members(aggregate)
        self._keys: dict[str, DataKey] = {}  # by id

    def key_of(self, partition: int, subject: str) -> DataKey | None:
        """Return the data key of an aggregate in the keys topic; None if it has no key."""
        key = self._codec.current_key(partition, subject)
        if key is not None:
            self._keys[key.kid] = key
        return key

    def add_new_keys(self, changed_keys: Mapping[str, DataKey | None]) -> None:
        """Add the keys that a simulated command has created."""
        self._keys |= {key.kid: key for key in changed_keys.values() if key is not None}

    def decrypt(self, event: bytes) -> bytes:
        """Return a simulated event with its personal fields decrypted."""
        encrypted_event = None if self._members is None else read_encrypted_event(event)
        if self._members is None or encrypted_event is None:
            return event
        return decrypt_event(self._members, event, encrypted_event, self._keys.get)
