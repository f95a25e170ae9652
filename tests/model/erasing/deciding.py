"""An owner's memory, restored from the logs, and its decision on one command."""

from typing import NamedTuple

from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.checks import check_id
from cqrs_cli.core.erasure import Erase, decide_erase
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.reasons import CheckFailed
from cqrs_cli.core.stored import DedupEntry
from cqrs_cli.keys.topic import WrappedKey
from tests.model.erasing.note import (
    WRITTEN,
    active_kid,
    decrypt_message,
    encrypt_text,
    erased_kid,
    fingerprint_of,
    fold,
    key_of,
    message_kid,
    state_of,
    text_of,
)
from tests.model.erasing.world import (
    Command,
    CompactedRecord,
    Copy,
    DeferredWrite,
    Event,
    KeyRecord,
    Memory,
    Rules,
    World,
)


def recover_memory(rules: Rules, world: World, copy: Copy) -> Memory:
    """Return the state and the keys that an owner restores from a copy and the later records of the logs."""
    subject_keys, later_events = copy.cache.subject_keys, world.events[copy.events :]
    for record in world.keys[copy.cache.keys :]:
        if not isinstance(record, CompactedRecord):
            subject_keys = subject_keys.with_record(record)
    for event in later_events:
        if event.type == ERASED and rules.erased_ends_its_key:
            subject_keys = subject_keys.with_erased(erased_kid(event.data))
    state = state_of(decrypt_message("state", copy.state, active_kid(subject_keys)))
    for event in later_events:
        data = (
            event.data
            if event.type == ERASED
            else decrypt_message("event", event.data, active_kid(subject_keys))
        )
        state = fold(state, event.type, data)
    return Memory(state, subject_keys)


class Decision(NamedTuple):
    """A decision. `key_count` is the number of keys created so far in the whole world."""

    status: str
    memory: Memory
    deferred: DeferredWrite | None
    key_count: int
    event: Event | None = None
    keys: tuple[KeyRecord, ...] = ()


def decide(
    rules: Rules,
    command: Command,
    offset: int,
    memory: Memory,
    deferred: DeferredWrite | None,
    key_count: int,
) -> Decision:
    """Decide the command at an offset."""
    unchanged = Decision("unchanged", memory, deferred, key_count)
    if command.kind == "erase":
        return _erase(rules, unchanged)
    if command.kind == "resubmission":
        return _decide_resubmission(rules, command, unchanged)
    fingerprint = _fingerprint(rules, command.text, active_kid(memory.subject_keys) or key_of(key_count).kid)
    if (first_fingerprint := dict(memory.ids).get(command.id)) is not None:
        try:
            check_id(DedupEntry(0, 0, "accepted", 1, 1, first_fingerprint), fingerprint, 0)
        except CheckFailed as error:
            return unchanged._replace(status=error.reason.name)
        return unchanged._replace(status="duplicate")
    if command.kind == "defer":
        keyed = _with_key(unchanged)
        data = encrypt_text("command", command.text, active_kid(keyed.memory.subject_keys))
        return keyed._replace(status="deferred", deferred=DeferredWrite(data, offset))
    return _write(command.id, command.text, fingerprint, unchanged)


def _fingerprint(rules: Rules, text: str, kid: str) -> int:
    """Return the fingerprint. Without the rule it depends on the key."""
    return fingerprint_of(text) if rules.fingerprints_omit_personal else hash((kid, text))


def _erase(rules: Rules, before: Decision) -> Decision:
    memory = before.memory
    events = decide_erase(Erase(), active_kid(memory.subject_keys))
    if not events:
        return before
    [erased] = events
    data, subject_keys = encode_json(erased), memory.subject_keys.with_record(None)
    if rules.erased_ends_its_key:
        subject_keys = subject_keys.with_erased(erased.key)
    after = memory._replace(state=fold(memory.state, ERASED, data), subject_keys=subject_keys)
    return before._replace(status="accepted", memory=after, event=Event(ERASED, data), keys=(None,))


def _decide_resubmission(rules: Rules, command: Command, before: Decision) -> Decision:
    deferred, memory = before.deferred, before.memory
    assert deferred is not None
    kid, subject_keys = message_kid("command", deferred.data), memory.subject_keys
    without_deferred = before._replace(deferred=None)
    text = text_of(decrypt_message("command", deferred.data, active_kid(subject_keys)))
    if kid is not None and subject_keys.is_erased(kid) and rules.deferred_writes_end_with_key:
        return without_deferred._replace(
            status="rejected", memory=_remember(memory, command.id, fingerprint_of(text))
        )
    return _write(command.id, text, fingerprint_of(text), without_deferred)


def _write(id: str, text: str, fingerprint: int, before: Decision) -> Decision:
    keyed = _with_key(before)
    memory = keyed.memory
    kid = active_kid(memory.subject_keys)
    event = Event(WRITTEN, encrypt_text("event", text, kid))
    state = fold(memory.state, WRITTEN, decrypt_message("event", event.data, kid))
    after = _remember(memory._replace(state=state), id, fingerprint)
    return keyed._replace(status="accepted", memory=after, event=event)


def _remember(memory: Memory, id: str, fingerprint: int) -> Memory:
    return memory._replace(ids=tuple(sorted({**dict(memory.ids), id: fingerprint}.items())))


def _with_key(before: Decision) -> Decision:
    """Return the decision with an active key, which is created if there is none."""
    memory = before.memory
    if memory.subject_keys.current is not None:
        return before
    record = WrappedKey(key_of(before.key_count).kid, "master", "")
    after = memory._replace(subject_keys=memory.subject_keys.with_record(record))
    return before._replace(memory=after, key_count=before.key_count + 1, keys=(record,))
