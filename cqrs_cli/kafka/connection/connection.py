"""The connection that a project's settings name: a cluster, and the places of what rests outside of it."""

from dataclasses import dataclass

from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.payloads.address import PayloadStoreAddress


@dataclass(frozen=True, slots=True, repr=False)
class Connection(Cluster):
    """A cluster, the place of the large payloads that its records refer to, and that of the keys to personal fields.

    All that talks to Kafka takes a `Cluster`, and so cannot fetch a payload: that is for those who are given the place.
    """

    payloads: PayloadStoreAddress | None = None
    keys: KeyRingAddress | None = None
