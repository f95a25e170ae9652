"""Heartbeats of runs, in the metadata of an offset: their format, and how long a run has sent none.

`cqrs status`, `top`, `doctor` and `send --wait` report silent runs. A run that was killed leaves its claims open, so
only its missing heartbeats show that it has ended.
"""

import time
from collections.abc import Callable, Iterable, Mapping

import msgspec
from confluent_kafka import Consumer

from cqrs_cli.kafka.clients import REQUEST_TIMEOUT
from cqrs_cli.kafka.offsets import committed_offsets

#: The partition of a claim slot's heartbeat topic whose offset carries the heartbeat. Nothing else commits this offset.
HEARTBEAT_PARTITION = 0

#: Seconds without a heartbeat after which a run is reported as silent.
SILENT_AFTER = 10.0

#: Seconds until a heartbeat that looks old is read again: the clocks of two machines may differ. A run sends a
#: heartbeat in less than half of this time.
CONFIRM_AFTER = 1.0

#: The heartbeats in one heartbeat topic: run id → time of the run's last heartbeat, in ms.
#: Sample: `{"3f9ab27c04d1": 1765532418123}`
Heartbeats = Mapping[str, int]


def parse_heartbeats(metadata: str) -> Heartbeats:
    """Return the heartbeats in an offset's metadata; an empty mapping for any other text."""
    try:
        return msgspec.json.decode(metadata.encode(), type=dict[str, int])
    except (ValueError, RecursionError):
        return {}


def read_heartbeats(client: Consumer, topic: str, timeout: float = REQUEST_TIMEOUT) -> Heartbeats:
    """Return the heartbeats that the client's group has committed at this topic; raises `KafkaException`."""
    committed = committed_offsets(client, topic, [HEARTBEAT_PARTITION], timeout)
    return parse_heartbeats(committed[HEARTBEAT_PARTITION].metadata)


class SilenceReader:
    """Measures for how long runs have sent no heartbeat."""

    def __init__(self, sleep: Callable[[float], object] = time.sleep) -> None:
        self._sleep = sleep
        #: The heartbeats that looked old at the last read: run id → time in ms.
        self._old_heartbeats: dict[str, int] = {}

    def silent_runs(self, read_heartbeats: Callable[[], Heartbeats], runs: Iterable[str]) -> dict[str, float]:
        """Return the silent runs among these runs, each with the seconds since its last heartbeat. A run that has never
        sent a heartbeat is left out.

        The heartbeats are read twice if a run looks silent for the first time.
        """
        runs = set(runs)
        previous_heartbeats = self._old_heartbeats
        self._old_heartbeats = self._find_old(read_heartbeats(), runs)
        if self._old_heartbeats.items() - previous_heartbeats.items():
            self._sleep(CONFIRM_AFTER)
            confirmed_heartbeats = self._find_old(read_heartbeats(), runs)
            self._old_heartbeats = dict(confirmed_heartbeats.items() & self._old_heartbeats.items())
        now = time.time()
        return {run: now - sent_at / 1000 for run, sent_at in self._old_heartbeats.items()}

    def _find_old(self, heartbeats: Heartbeats, runs: set[str]) -> dict[str, int]:
        oldest_active = (time.time() - SILENT_AFTER) * 1000
        return {
            run: sent_at for run, sent_at in heartbeats.items() if run in runs and sent_at < oldest_active
        }
