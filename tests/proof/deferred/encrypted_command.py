"""A command with personal fields that is deferred, resubmitted and decided, as an owner writes it."""

from typing import Any

from msgspec.structs import replace

from cqrs_cli.codec.damage_finder import DamageFinder
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.proof.documents import document_redactor
from cqrs_cli.proof.findings import Report
from cqrs_cli.proof.fingerprints import fingerprint_check_of
from cqrs_cli.proof.partition import PartitionVerification
from cqrs_cli.proof.scope import PersonalScope
from cqrs_cli.state.store import Store
from tests.proof import history
from tests.proof.encrypted_histories import KEYRING, KEYS_TOPIC, TALLY, EncryptedHistory, key, unwrap
from tests.proof.history import NOW, PARTITION, TOPIC, WINDOW, PlannedCommand, plan_command

DUE = NOW + 500


def deferred_command(name: str) -> PlannedCommand:
    """Return a deferred command."""
    return plan_command(1, data={"n": 1, "who": name}, notbefore=rfc3339(DUE))


class DeferredHistory(EncryptedHistory):
    """A history whose first command is deferred while the others are decided.

    With `is_resubmitted` the first command is resubmitted after the others.
    """

    def __init__(self, *planned: PlannedCommand, is_resubmitted: bool = True) -> None:
        self.is_resubmitted = is_resubmitted
        super().__init__(planned)

    def decide(self, refused: frozenset[int] = frozenset(), window: int = WINDOW) -> None:
        self.since = []
        first = self._batch(self.commands[:1], DeferralTable())
        (entry,) = first.deferral_changes.values()
        assert entry is not None
        self.entry: Deferral = entry
        later_commands, table = self.commands[1:], DeferralTable()
        if self.is_resubmitted:
            offset = self.commands[-1].offset + 1
            resubmitted = replace(entry, resubmitted_offset=offset, resubmitted_topic_id="T")
            value = resubmitted.resubmission_document(f"{PARTITION}/{entry.offset}")
            self.commands.append(Record(offset, DUE, b"a", value, [*HEADERS]))
            later_commands, table = self.commands[1:], DeferralTable([resubmitted])
        self.committed = self.commands[-1].offset + 1
        second = self._batch(later_commands, table, first.data_keys.get("a"))
        self.outcomes = history.output_records([*first.outcomes, *second.outcomes])
        self.events, self.letters = history.output_records(second.events), []
        data_keys = {**first.data_keys, **second.data_keys}
        self.keys = {
            name: KEYRING.wrap(KEYS_TOPIC, name, key) for name, key in data_keys.items() if key is not None
        }
        last = None if self.is_resubmitted else entry.value()
        self.deferred = [Record(0, DUE, entry.key.encode(), last, [])]

    def _batch(
        self, records: list[Record], table: DeferralTable, current_key: DataKey | None = None
    ) -> Decisions:
        deferrals = Deferrals(lambda: table, "T", PARTITION, active=True)
        context = BatchContext(
            *(PARTITION, lambda _: None, lambda *_: None, lambda: 0, history.partition_of, TOPIC, WINDOW),
            deferrals=deferrals,
            data_key_of=lambda _: current_key,
            new_data_key=map(key, [1, 2] if current_key is None else [2, 3]).__next__,
        )
        return decide_batch(TALLY, records, context)

    def verify(
        self, committed: tuple[int | None, int | None] | None = None, on_disk: bool = False, **scope: Any
    ) -> Report:
        personal = PersonalScope(DamageFinder("tally", self.keys.get, unwrap), document_redactor(TALLY))
        return super().verify(
            committed,
            on_disk,
            **{
                "topic_id": "T",
                "fits_command": fingerprint_check_of(TALLY),
                "personal": personal,
                "clock_tolerance": 0,
                **scope,
            },
        )

    def check_more(self, proof: PartitionVerification, store: Store) -> None:
        proof.deferred.read(self.deferred)
        proof.check_deferred_topic([])
        super().check_more(proof, store)
