"""The identity of a shard: the log that it is a cache of, and the form of the cache."""

import msgspec

from cqrs_cli.state.encoding import CODEC


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The log that a shard is a cache of, and the form of the cache. Another identity means another shard."""

    cluster_id: str
    topics: dict[str, str]  # kind → topic id
    partition: int
    partitions: int
    schema: str  # digest of the fields of state and events
    revision: int
    window_ms: int
    codec: int = CODEC

    def differences(self, noted: bytes) -> str:
        """The members that differ from those in `noted`, an encoded identity; empty if none do."""
        try:
            theirs = msgspec.json.decode(noted, type=dict[str, object])
        except msgspec.DecodeError:
            return "it has no identity"
        ours = msgspec.to_builtins(self)
        changed = sorted(k for k in ours.keys() | theirs.keys() if ours.get(k) != theirs.get(k))
        advice = ": give each cluster a state_dir of its own" if "cluster_id" in changed else ""
        changed = ["cluster_id"] if advice else changed
        return ", ".join(f"{k} was {theirs.get(k)} and is {ours.get(k)}" for k in changed) + advice
