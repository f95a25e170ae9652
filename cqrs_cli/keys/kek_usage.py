"""Counts the records of a keys topic by key-encryption key (KEK). It needs no keyring: records name their KEK."""

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

from cqrs_cli.core.messages.record import Record
from cqrs_cli.keys.log import key_record


class KekUsage(NamedTuple):
    """The number of records whose data key is encrypted with one KEK."""

    current: int  # records with the current key of a subject
    replaced: int  # earlier records of a subject, which compaction has not removed yet

    @property
    def is_unused(self) -> bool:
        """True if no record in the topic is encrypted with the KEK, so no reader needs it."""
        return not self.current and not self.replaced


class KeysCount:
    """Counts the records of a keys topic, partition by partition, each in log order."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._kek_of_subject: dict[bytes, str] = {}  # digest of the subject → KEK; a digest takes less memory
        self._record_counts = Counter[str]()

    def add_records(self, partition: int, records: Iterable[Record]) -> None:
        """Count the next records; raises `ContradictionError` for a record that is not a key."""
        for record in records:
            _, wrapped_key = key_record(self._topic, partition, record)
            subject = blake2b(record.key or b"", digest_size=16).digest()
            if wrapped_key is None:
                self._kek_of_subject.pop(subject, None)
            else:
                self._kek_of_subject[subject] = wrapped_key.kek_name
                self._record_counts[wrapped_key.kek_name] += 1

    def usage_by_kek(self) -> Mapping[str, KekUsage]:
        """Return the use of each KEK that the topic names, by name."""
        current = Counter(self._kek_of_subject.values())
        return {
            name: KekUsage(current[name], count - current[name])
            for name, count in sorted(self._record_counts.items())
        }
