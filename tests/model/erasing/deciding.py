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
    key_of,
    kid_ended,
    kid_in,
    kid_named,
    mark_of,
    open_sealed,
    seal,
    state_of,
    step,
    text_of,
)
from tests.model.erasing.world import (
    Command,
    Copy,
    Event,
    Gone,
    KeyRecord,
    Memory,
    Parked,
    Rules,
    World,
)


def recovered(rules: Rules, world: World, copy: Copy) -> Memory:
    """Return an owner's memory after a copy and the later records of the logs, without ids."""
    known, rest = copy.cache.known, world.events[copy.events :]
    for record in world.keys[copy.cache.keys :]:
        if not isinstance(record, Gone):
            known = known.with_record(record)
    for event in rest:
        if event.type == ERASED and rules.erased_ends_its_key:
            known = known.with_erased(kid_ended(event.data))
    state = state_of(open_sealed("state", copy.state, kid_in(known)))
    for event in rest:
        data = event.data if event.type == ERASED else open_sealed("event", event.data, kid_in(known))
        state = step(state, event.type, data)
    return Memory(state, known)


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
    as_it_is = Decision("unchanged", memory, parked, drawn)
    if command.what == "erase":
        return _erase(rules, as_it_is)
    if command.what == "again":
        return _decide_again(rules, command, as_it_is)
    mark = _mark(rules, command.text, kid_in(memory.known) or key_of(drawn).kid)
    if (first := dict(memory.ids).get(command.id)) is not None:
        try:
            check_id(DedupEntry(0, 0, "accepted", 1, 1, first), mark, 0)
        except CheckFailed as refused:
            return as_it_is._replace(status=refused.reason.name)
        return as_it_is._replace(status="duplicate")
    if command.what == "park":
        keyed = _with_key(as_it_is)
        data = seal("command", command.text, kid_in(keyed.memory.known))
        return keyed._replace(status="deferred", parked=Parked(data, at))
    return _write(command.id, command.text, mark, as_it_is)


def _mark(rules: Rules, text: str, kid: str) -> int:
    """Return the fingerprint. Without the rule it depends on the key."""
    return mark_of(text) if rules.personal_fields_left_out else hash((kid, text))


def _erase(rules: Rules, before: Decision) -> Decision:
    memory = before.memory
    events = decide_erase(Erase(), kid_in(memory.known))
    if not events:
        return before
    [erased] = events
    data, known = encode_json(erased), memory.known.with_record(None)
    if rules.erased_ends_its_key:
        known = known.with_erased(erased.key)
    after = memory._replace(state=step(memory.state, ERASED, data), known=known)
    return before._replace(status="accepted", memory=after, event=Event(ERASED, data), keys=(None,))


def _decide_again(rules: Rules, command: Command, before: Decision) -> Decision:
    parked, memory = before.parked, before.memory
    assert parked is not None
    kid, known = kid_named("command", parked.data), memory.known
    left = before._replace(parked=None)
    text = text_of(open_sealed("command", parked.data, kid_in(known)))
    if kid is not None and known.is_erased(kid) and rules.parked_end_with_their_key:
        return left._replace(status="rejected", memory=_remembered(memory, command.id, mark_of(text)))
    return _write(command.id, text, mark_of(text), left)


def _write(id: str, text: str, mark: int, before: Decision) -> Decision:
    keyed = _with_key(before)
    memory = keyed.memory
    kid = kid_in(memory.known)
    event = Event(WRITTEN, seal("event", text, kid))
    state = step(memory.state, WRITTEN, open_sealed("event", event.data, kid))
    after = _remembered(memory._replace(state=state), id, mark)
    return keyed._replace(status="accepted", memory=after, event=event)


def _remembered(memory: Memory, id: str, mark: int) -> Memory:
    return memory._replace(ids=tuple(sorted({**dict(memory.ids), id: mark}.items())))


def _with_key(before: Decision) -> Decision:
    """Return the decision with a key in force, which is created if it does not exist."""
    memory = before.memory
    if memory.known.current is not None:
        return before
    record = WrappedKey(key_of(before.drawn).kid, "master", "")
    after = memory._replace(known=memory.known.with_record(record))
    return before._replace(memory=after, drawn=before.drawn + 1, keys=(record,))
