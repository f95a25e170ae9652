"""A command with personal fields that is deferred, resubmitted and decided, as an owner writes it."""

from typing import Any

from msgspec.structs import replace

from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.proof.documents import document_mask
from cqrs_cli.proof.findings import Report
from cqrs_cli.proof.fingerprints import fingerprint_check_of
from cqrs_cli.proof.keys import ActiveKeys
from cqrs_cli.proof.partition import PartitionVerification
from cqrs_cli.proof.scope import PersonalScope
from cqrs_cli.state.store import Store
from tests.proof import history
from tests.proof.encrypted_histories import KEYS, RING, TALLY, Sealed, key, unwrapped
from tests.proof.history import NOW, PARTITION, TOPIC, WINDOW, Wish, wish

DUE = NOW + 500


def later(who: str) -> Wish:
    """Return a deferred command."""
    return wish(1, data={"n": 1, "who": who}, notbefore=rfc3339(DUE))


class Parked(Sealed):
    """A history whose first command is deferred while the others are decided.

    With `is_said` it is resubmitted after them.
    """

    def __init__(self, *wishes: Wish, is_said: bool = True) -> None:
        self.is_said = is_said
        super().__init__(wishes)

    def decide(self, refused: frozenset[int] = frozenset(), window: int = WINDOW) -> None:
        self.since = []
        first = self._batch(self.commands[:1], DeferralTable())
        (entry,) = first.deferral_changes.values()
        assert entry is not None
        self.entry: Deferral = entry
        rest, table = self.commands[1:], DeferralTable()
        if self.is_said:
            at = self.commands[-1].offset + 1
            said = replace(entry, resubmitted_offset=at, resubmitted_topic="T")
            value = said.resubmission_document(f"{PARTITION}/{entry.offset}")
            self.commands.append(Record(at, DUE, b"a", value, [*HEADERS]))
            rest, table = self.commands[1:], DeferralTable([said])
        self.committed = self.commands[-1].offset + 1
        second = self._batch(rest, table, first.data_keys.get("a"))
        self.outcomes = history.laid([*first.outcomes, *second.outcomes])
        self.events, self.letters = history.laid(second.events), []
        found = {**first.data_keys, **second.data_keys}
        self.keys = {name: RING.wrap(KEYS, name, one) for name, one in found.items() if one is not None}
        last = None if self.is_said else entry.value()
        self.deferred = [Record(0, DUE, entry.key.encode(), last, [])]

    def _batch(
        self, records: list[Record], table: DeferralTable, in_force: DataKey | None = None
    ) -> Decisions:
        deferrals = Deferrals(lambda: table, "T", PARTITION, active=True)
        context = BatchContext(
            *(PARTITION, lambda _: None, lambda *_: None, lambda: 0, history.home, TOPIC, WINDOW),
            deferrals=deferrals,
            data_key_of=lambda _: in_force,
            new_data_key=map(key, [1, 2] if in_force is None else [2, 3]).__next__,
        )
        return decide_batch(TALLY, records, context)

    def prove(
        self, seen: tuple[int | None, int | None] | None = None, on_disk: bool = False, **scope: Any
    ) -> Report:
        personal = PersonalScope(ActiveKeys("tally", self.keys.get, unwrapped), document_mask(TALLY))
        return super().prove(
            seen,
            on_disk,
            **{
                "topic_id": "T",
                "has_fingerprint": fingerprint_check_of(TALLY),
                "personal": personal,
                "max_earliness": 0,
                **scope,
            },
        )

    def conclude(self, proof: PartitionVerification, store: Store) -> None:
        proof.deferred.read(self.deferred)
        proof.check_deferred_topic([])
        super().conclude(proof, store)
