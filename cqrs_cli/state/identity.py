"""The identity of a shard: its log, and the format of its data."""

import msgspec

from cqrs_cli.state.encoding import CODEC

#: The text for a changed `schema`, because a digest would not help the reader.
_SCHEMA_CHANGED = "fields of its events or its state have changed"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The log of which a shard is a cache, and the format of the cache. A shard is used only with an equal identity."""

    cluster_id: str
    topics: dict[str, str]  # the topic ids, by kind of topic, such as `events`
    partition: int
    partitions: int  # the partition count
    schema: str  # `Aggregate.schema_digest`
    revision: int  # the decider's revision
    window_ms: int  # the dedup window
    codec: int = CODEC

    def differences(self, stored_identity: bytes) -> str:
        """Return a text about the members that differ from an encoded identity: "revision was 1 and is 2".

        Empty if all members are equal.
        """
        try:
            stored_members = msgspec.json.decode(stored_identity, type=dict[str, object])
        except msgspec.DecodeError:
            return "it has no identity"
        own_members = msgspec.to_builtins(self)
        different_names = sorted(
            name
            for name in own_members.keys() | stored_members.keys()
            if own_members.get(name) != stored_members.get(name)
        )
        advice = ""
        if "cluster_id" in different_names:  # in another cluster the topic ids differ, too
            different_names, advice = ["cluster_id"], ": give each cluster a state_dir of its own"
        differences = [
            _SCHEMA_CHANGED
            if name == "schema"
            else f"{name} was {stored_members.get(name)} and is {own_members.get(name)}"
            for name in different_names
        ]
        return ", ".join(differences) + advice
