"""A program that puts a pickle into every input of records and shards, and prints Python's audit events of code."""

import base64
import json
import sys
from pathlib import Path

from aggregates import counter
from cqrs_cli.cli.output import json_line
from cqrs_cli.cli.render.record import record_document, record_line
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.messages.event import HEADERS, read_event
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError
from cqrs_cli.ownership.claim import parse_claim
from cqrs_cli.state.shard import open_readonly, open_shard
from cqrs_cli.state.store import Positions, WriteBatch
from tests.state.shards import IDENTITY
from tests.support.commands import STRUCTURED_HEADERS
from tests.support.commands import document as command

#: Python's audit events for code that comes from data, from a file or from another program.
CODE_EVENTS = {
    *("exec", "compile", "import", "marshal.load", "marshal.loads", "pickle.find_class", "code.__new__"),
    *("ctypes.dlopen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen"),
}
COUNTER = Aggregate.of("counter", counter.decider)


def read_records(payload: bytes) -> None:
    """Read the bytes as key, value, header and claim, in every way that records are read."""
    valid_value = json.dumps(command("counter.Increment", "a", "1")).encode()
    attributes = [(f"ce_{name}", b"1.0") for name in ("specversion", "id", "source", "type", "subject")]
    records = [
        Record(0, 0, b"a", payload, STRUCTURED_HEADERS),
        Record(1, 0, payload, valid_value, STRUCTURED_HEADERS),
        Record(2, 0, b"a", payload, None),
        Record(3, 0, b"a", valid_value, [("x", payload), *HEADERS]),
        Record(4, 0, b"a", valid_value, [("content-type", payload)]),
        Record(5, 0, b"1.0", payload, [*attributes]),
    ]
    counts = decide_batch(
        COUNTER, records, BatchContext(0, lambda _: None, lambda *_: None, lambda: 0)
    ).counts
    assert (counts["accepted"], counts["failed"]) == (1, 5), counts
    for record in records:
        record_line(0, record)
        json_line(record_document(0, record))
    for parse in (read_event, read_outcome):
        try:
            parse(payload)
            raise AssertionError(f"{parse.__name__} takes a pickle")
        except ValueError:
            pass
    assert parse_claim(payload.decode("latin-1")) is None


def read_shard(folder: Path, payload: bytes) -> None:
    """Read the bytes as the stored state of an aggregate."""
    store = open_shard(folder, IDENTITY).store
    store.take_ownership("me", "")
    store.apply(
        WriteBatch("me", store.positions(), Positions(1, 1, 1, 1), {"a": StoredState(1, 0, 0, payload)}, {})
    )
    cache = StateCache(COUNTER, store, "me")
    try:
        with cache.reading():
            cache.state("a")
        raise AssertionError("a pickle is read as a state")
    except ContradictionError:
        pass
    store.close()
    reopened = open_readonly(folder)
    assert reopened is not None and [stored.state for _, stored in reopened.items()] == [payload]
    reopened.close()


def main(folder: Path, payload: bytes) -> None:
    """Run everything twice, so that all imports are done when the second run is observed."""
    audit_events: list[str] = []
    for name in ("0", "1"):
        if name == "1":
            sys.addaudithook(lambda event, _: audit_events.append(event) if event in CODE_EVENTS else None)
        read_records(payload)
        read_shard(folder / name, payload)
    print(json.dumps(audit_events))


if __name__ == "__main__":
    main(Path(sys.argv[1]), base64.b64decode(sys.argv[2]))
