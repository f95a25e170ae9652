"""The connection of a project's settings: a cluster, a payload store and a keyring."""

from dataclasses import dataclass

from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.payloads.address import PayloadStoreAddress


@dataclass(frozen=True, slots=True, repr=False)
class Connection(Cluster):
    """A cluster, the address of the payload store for its records, and the address of the keyring for personal fields.

    Functions that only talk to Kafka have a parameter `Cluster`, so they cannot download payloads.
    """

    payloads: PayloadStoreAddress | None = None
    keys: KeyRingAddress | None = None

    def payload_codec(self) -> RecordCodec:
        """Return the codec that downloads payloads, and leaves personal fields encrypted. It is picklable."""
        return RecordCodec(self.payloads)

    def require_keyring(self, aggregate: str) -> Keyring:
        """Return the keyring for an aggregate; raises `ConfigurationError` if it is not set, or cannot be read."""
        if self.keys is None:
            raise ConfigurationError(
                f"{aggregate} has personal fields, and no keyring is set to encrypt them",
                "set keyring to a file of key-encryption keys; cqrs keys init creates one",
            )
        return self.keys.load()
