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
    decrypt_message,
    encrypt_text,
    fingerprint_of,
    key_of,
    kid_ended,
    kid_in,
    kid_named,
    state_of,
    step,
    text_of,
)
from tests.model.erasing.world import (
    Command,
    CompactedRecord,
    Copy,
    Event,
    KeyRecord,
    Memory,
    Parked,
    Rules,
    World,
)


def recover_memory(rules: Rules, world: World, copy: Copy) -> Memory:
    """Return an owner's memory after a copy and the later records of the logs, without ids."""
    key_table, later_events = copy.cache.known, world.events[copy.events :]
    for record in world.keys[copy.cache.keys :]:
        if not isinstance(record, CompactedRecord):
            key_table = key_table.with_record(record)
    for event in later_events:
        if event.type == ERASED and rules.erased_ends_its_key:
            key_table = key_table.with_erased(kid_ended(event.data))
    state = state_of(decrypt_message("state", copy.state, kid_in(key_table)))
    for event in later_events:
        data = event.data if event.type == ERASED else decrypt_message("event", event.data, kid_in(key_table))
        state = step(state, event.type, data)
    return Memory(state, key_table)


class Decision(NamedTuple):
    """A decision. `drawn` is the number of keys created so far in the whole world."""

    status: str
    memory: Memory
    parked: Parked | None
    drawn: int
    event: Event | None = None
    keys: tuple[KeyRecord, ...] = ()


def decide(
    rules: Rules, command: Command, at: int, memory: Memory, parked: Parked | None, drawn: int
) -> Decision:
    """Decide the command at an offset."""
    unchanged = Decision("unchanged", memory, parked, drawn)
    if command.what == "erase":
        return _erase(rules, unchanged)
    if command.what == "again":
        return _decide_resubmission(rules, command, unchanged)
    fingerprint = _fingerprint(rules, command.text, kid_in(memory.known) or key_of(drawn).kid)
    if (first_fingerprint := dict(memory.ids).get(command.id)) is not None:
        try:
            check_id(DedupEntry(0, 0, "accepted", 1, 1, first_fingerprint), fingerprint, 0)
        except CheckFailed as error:
            return unchanged._replace(status=error.reason.name)
        return unchanged._replace(status="duplicate")
    if command.what == "park":
        keyed = _with_key(unchanged)
        data = encrypt_text("command", command.text, kid_in(keyed.memory.known))
        return keyed._replace(status="deferred", parked=Parked(data, at))
    return _write(command.id, command.text, fingerprint, unchanged)


def _fingerprint(rules: Rules, text: str, kid: str) -> int:
    """Return the fingerprint. Without the rule it depends on the key."""
    return fingerprint_of(text) if rules.personal_fields_left_out else hash((kid, text))


def _erase(rules: Rules, before: Decision) -> Decision:
    memory = before.memory
    events = decide_erase(Erase(), kid_in(memory.known))
    if not events:
        return before
    [erased] = events
    data, key_table = encode_json(erased), memory.known.with_record(None)
    if rules.erased_ends_its_key:
        key_table = key_table.with_erased(erased.key)
    after = memory._replace(state=step(memory.state, ERASED, data), known=key_table)
    return before._replace(status="accepted", memory=after, event=Event(ERASED, data), keys=(None,))


def _decide_resubmission(rules: Rules, command: Command, before: Decision) -> Decision:
    parked, memory = before.parked, before.memory
    assert parked is not None
    kid, key_table = kid_named("command", parked.data), memory.known
    without_parked = before._replace(parked=None)
    text = text_of(decrypt_message("command", parked.data, kid_in(key_table)))
    if kid is not None and key_table.is_erased(kid) and rules.parked_end_with_their_key:
        return without_parked._replace(
            status="rejected", memory=_remembered(memory, command.id, fingerprint_of(text))
        )
    return _write(command.id, text, fingerprint_of(text), without_parked)


def _write(id: str, text: str, fingerprint: int, before: Decision) -> Decision:
    keyed = _with_key(before)
    memory = keyed.memory
    kid = kid_in(memory.known)
    event = Event(WRITTEN, encrypt_text("event", text, kid))
    state = step(memory.state, WRITTEN, decrypt_message("event", event.data, kid))
    after = _remembered(memory._replace(state=state), id, fingerprint)
    return keyed._replace(status="accepted", memory=after, event=event)


def _remembered(memory: Memory, id: str, fingerprint: int) -> Memory:
    return memory._replace(ids=tuple(sorted({**dict(memory.ids), id: fingerprint}.items())))


def _with_key(before: Decision) -> Decision:
    """Return the decision with a key in force, which is created if it does not exist."""
    memory = before.memory
    if memory.known.current is not None:
        return before
    record = WrappedKey(key_of(before.drawn).kid, "master", "")
    after = memory._replace(known=memory.known.with_record(record))
    return before._replace(memory=after, drawn=before.drawn + 1, keys=(record,))
