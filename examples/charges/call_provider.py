"""Call a payment provider for each `Requested`, and send the result as a receipt, `Settle`: docs/recipes.md, recipe 6.

    SERVER=kafka-1:9092 INSTANCE=caller-1 SERVICE=https://provider.example/payments python call_provider.py

Events of a key are handled in order, different keys in parallel. Any unexpected error ends the program, and a service
manager restarts it: the events after the committed offset are then handled again.
"""

import json
import os
import random
import time
import traceback
import urllib.request
import uuid
from collections import defaultdict, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from http.client import HTTPException
from threading import Semaphore
from typing import Any
from urllib.error import HTTPError
from zlib import crc32

from charges.charge import Requested, Settle
from confluent_kafka import Consumer, KafkaException, TopicPartition

import cqrs_cli as cqrs

TOPIC = "charge.events"
NAMESPACE = uuid.UUID("0d6c2a7e-5a0f-4b57-9d0e-3a8f6c1b2e44")  # of this program, chosen once
THREADS, MAX_WAITING, ATTEMPTS = 8, 1000, 5

#: The longest call (five timeouts, pauses, the wait for an outcome) must end within max.poll.interval.ms.
TIMEOUT = 10


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the program at once, so that no worker begins with the next event of a key."""
    try:
        yield
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def call(key: str, body: dict[str, int]) -> bool:
    """Return True if the provider accepts, and False if it refuses or all attempts fail."""
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["SERVICE"], json.dumps(body).encode(), headers)
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0.1, 0.2) * 2**attempt)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                response.read()
                return True
        except HTTPError as error:
            if error.code < 500 and error.code not in (408, 409, 429):
                return False
        except (OSError, HTTPException):
            pass
    return False


class Caller:
    """Handles the events of a consumer, and stores the offsets of handled events; librdkafka commits them."""

    def __init__(self, consumer: Consumer, client: cqrs.Client) -> None:
        self.consumer, self.client = consumer, client
        self.workers = [ThreadPoolExecutor(1) for _ in range(THREADS)]
        self.slots = Semaphore(MAX_WAITING)
        #: The events of each partition that are not handled yet, with their offsets in order.
        self.pending: dict[int, deque[tuple[int, Future[None]]]] = defaultdict(deque)

    @exit_on_error()
    def handle(self, at: cqrs.Recorded[Any]) -> None:
        if isinstance(at.event, Requested):
            key = str(uuid.uuid5(NAMESPACE, f"{at.topic}/{at.id}@{at.time.isoformat()}"))
            paid = call(key, {"amount": at.event.amount})
            outcome = self.client.send(at.aggregate_id, Settle(at.event.number, paid), id=key).wait()
            if not outcome.ok and outcome.reason != "ID_REUSED":  # the first of two different receipts counts
                raise RuntimeError(outcome)

    def submit(self, at: cqrs.Recorded[Any]) -> None:
        """Give the event to the worker of its key, once fewer than `MAX_WAITING` events wait."""
        self.slots.acquire()
        future = self.workers[crc32(at.aggregate_id.encode()) % THREADS].submit(self.handle, at)
        future.add_done_callback(lambda _: self.slots.release())
        self.pending[at.partition].append((at.offset, future))

    def store_offsets(self) -> None:
        """Store the lowest offset of each partition that is not handled."""
        for partition, events in self.pending.items():
            handled = None
            while events and events[0][1].done() and not events[0][1].cancelled():
                handled, _ = events.popleft()
            if handled is not None:
                self.consumer.store_offsets(offsets=[TopicPartition(TOPIC, partition, handled + 1)])

    def revoke(self, *_: object) -> None:
        """Before another instance gets the partitions: drop the waiting events, and end the running calls.

        The last event is dropped first, so that no event overtakes an earlier event of its key.
        """
        futures = [future for events in self.pending.values() for _, future in reversed(events)]
        wait([future for future in futures if not future.cancel()])
        self.store_offsets()
        self.pending.clear()

    def run(self) -> None:
        self.consumer.subscribe([TOPIC], on_revoke=self.revoke)
        while True:
            message = self.consumer.poll(0.1)
            self.store_offsets()
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            self.submit(cqrs.decode(message))


def main() -> None:
    server = os.environ["SERVER"]
    consumer = Consumer(
        {
            "bootstrap.servers": server,
            "group.id": "call-provider",
            "group.instance.id": os.environ["INSTANCE"],  # after a restart no rebalance is needed
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.offset.store": False,
            "auto.commit.interval.ms": 1000,
        }
    )
    with exit_on_error(), cqrs.Client(bootstrap_server=server) as client:
        Caller(consumer, client).run()


if __name__ == "__main__":
    main()
