"""An owner's states and keys of customers. Its logs are lists: it commits to them and recovers from them."""

from collections.abc import Iterator

from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.recover import fold_records
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.state.key_cache import KeyStore, MemoryKeys
from cqrs_cli.state.memory import MemoryStore
from tests.core.personal.batches import TIMESTAMP
from tests.core.personal.customer import CUSTOMER, Customer

_UNREACHABLE_LOG = PartitionLog(Connection("127.0.0.1:1"), Topics("customer"), 0)

KEYRING = Keyring({"2026-11": b"m" * 64})


class KeysTopicInMemory:
    """A keys topic of one partition. A record that compaction has deleted is None."""

    topic = "customer.keys"

    def __init__(self) -> None:
        self.records: list[Record | None] = []
        self.failing_offset: int | None = None  # the broker fails at this record
        self.batch_size = 1  # records in a batch

    def partition_count(self) -> int:
        return 1

    def end_of_events(self, partition: int) -> int:
        raise NotImplementedError

    def bounds(self, partition: int) -> tuple[int, int]:
        return 0, len(self.records)

    def read(self, partition: int, start: int, end: int) -> Iterator[list[Record]]:
        for first in range(start, end, self.batch_size):
            offsets = range(first, min(first + self.batch_size, end))
            if self.failing_offset in offsets:
                raise UnavailableError("no answer", "")
            if batch := [record for offset in offsets if (record := self.records[offset]) is not None]:
                yield batch

    def close(self) -> None: ...


class LogsInMemory:
    """The committed events and keys."""

    def __init__(self) -> None:
        self.events: list[Record] = []
        self.keys = KeysTopicInMemory()

    def append_keys(self, records: list[tuple[bytes | None, bytes]]) -> None:
        """Append records to the keys. A record is (value, subject)."""
        for value, subject in records:
            self.keys.records.append(Record(len(self.keys.records), TIMESTAMP, subject, value))

    def compact(self) -> None:
        """Keep only the last record of each subject, and no tombstone."""
        records = self.keys.records
        last = {record.key: index for index, record in enumerate(records) if record is not None}
        for index, record in enumerate(records):
            if record is not None and (last[record.key] != index or record.value is None):
                records[index] = None


class OwnerStates:
    """Successive owners on one disk: `store` is the shard, `cache` its key cache."""

    def __init__(
        self,
        logs: LogsInMemory,
        store: MemoryStore | None = None,
        cache: KeyStore | None = None,
        keyring: Keyring = KEYRING,
    ) -> None:
        self.logs = logs
        self.store = MemoryStore(TIMESTAMP) if store is None else store
        self.cache = MemoryKeys(("k", "e")) if cache is None else cache
        self.keys = OwnerKeys(CUSTOMER, logs.keys, 0, keyring, self.cache)
        self.states = StateCache(CUSTOMER, self.store, "", keys=self.keys)

    def recover(self, end: int | None = None) -> "OwnerStates":
        """Fold all new records, or only the records before `end`."""
        self.states.read_keys()
        records, index = self.logs.events[self.states.positions.events : end], 0
        while index < len(records):
            with self.states.reading():
                states, index = fold_records(_UNREACHABLE_LOG, CUSTOMER, self.states, records, index)
            events_end = self.states.positions.events + index
            self.states.fold(self.states.positions._replace(events=events_end), states)
        if end is None:
            self.states.check_keys()
        return self

    def decide(self, *commands: Record) -> Decisions:
        """Decide, commit and stage."""
        with self.states.reading():
            context = BatchContext(
                0, self.states.state, lambda *_: None, lambda: TIMESTAMP, data_key_of=self.keys.key_of
            )
            decided = decide_batch(CUSTOMER, list(commands), context)
        self.logs.append_keys(self.keys.records(decided.data_keys))
        self.logs.events += [
            Record(len(self.logs.events) + number, TIMESTAMP, key, value)
            for number, (value, key, _) in enumerate(decided.events)
        ]
        end = len(self.logs.events)
        self.states.stage(decided, commands[-1].offset + 1, end, None, None, len(self.logs.keys.records))
        return decided

    def state(self, subject: str = "c") -> Customer | None:
        """Return the state of an aggregate."""
        with self.states.reading():
            versioned = self.states.state(subject)
        if versioned is None:
            return None
        assert isinstance(versioned.state, Customer)
        return versioned.state

    def stored_bytes(self, subject: str = "c") -> bytes:
        """Return the bytes of an aggregate's state in the shard."""
        return dict(self.store.items())[subject].state
