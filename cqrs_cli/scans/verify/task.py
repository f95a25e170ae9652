"""The task of `cqrs verify` on a worker: read one partition's topics with librdkafka, and verify them.

With live traffic the order of the steps matters. A transaction becomes visible in parts: the committed offset may be
visible before its records. So the logs are read up to their high watermarks, waiting for open transactions before them,
and the committed offset is read before and after the logs.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from cqrs_cli.core.fold import decode_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.errors import explain_log_stall
from cqrs_cli.deciding.history import history_mismatch
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.clients import bulk_consumer, consumer
from cqrs_cli.kafka.offsets import GroupCommit
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.readers import StalledError
from cqrs_cli.kafka.topics.topics import KINDS, Kind
from cqrs_cli.ownership.claim import UNKNOWN_TOPIC, Claim, parse_claim
from cqrs_cli.proof.documents import document_mask
from cqrs_cli.proof.fingerprints import fingerprint_check_of, fits_without_code
from cqrs_cli.proof.partition import PartitionVerification
from cqrs_cli.proof.scope import PersonalScope, Scope, check_shape
from cqrs_cli.proof.verification_checkpoint import CheckpointUnusableError, VerificationCheckpoint
from cqrs_cli.registry import load
from cqrs_cli.scans.guarded import guarded
from cqrs_cli.scans.log_progress import LogProgress
from cqrs_cli.scans.verify.checkpoint_files import (
    create_checkpoint_folder,
    folder_errors,
    load_checkpoint,
    write_checkpoint,
)
from cqrs_cli.scans.verify.keys import LatestKeys, latest_keys
from cqrs_cli.scans.verify.parents import find_parents, loss_of
from cqrs_cli.scans.verify.plan import VerificationPlan, VerificationResult
from cqrs_cli.scans.verify.scratch import open_scratch
from cqrs_cli.scans.verify.state import ShardComparison, StateCheck
from cqrs_cli.state.evidence import Evidence, evidence

#: The topics that owners write, in the order in which they are read.
OWNER_LOGS: tuple[Kind, ...] = ("outcomes", "events", "dead-letters", "deferred")


def verify_partition(plan: VerificationPlan, partition: int) -> VerificationResult:
    """Verify one partition. Returns an error as a value, so that no Spark task fails."""
    log = PartitionLog(plan.connection, plan.aggregate.topics, partition, plan.connection.payload_codec())

    def work() -> VerificationResult:
        checkpoint_folder = _earlier_checkpoint_folder(plan, partition)
        with closing(LogProgress(plan.report_address, partition, plan.report_interval)) as progress:
            if checkpoint_folder is not None:
                try:
                    return _verify(plan, log, progress, checkpoint_folder)
                except CheckpointUnusableError as error:
                    return _verify(plan, log, progress)._replace(restart_reason=str(error))
            return _verify(plan, log, progress)

    return guarded(
        plan.connection,
        log.log_name("commands"),
        work,
        lambda error: VerificationResult(partition, error=error),
    )


def _earlier_checkpoint_folder(plan: VerificationPlan, partition: int) -> Path | None:
    """Return the folder of the partition's checkpoint, or None. A child partition that had no outcomes yet starts from
    its parents instead.
    """
    generation = None if plan.generations is None else plan.generations.before
    if generation is None or not (folder := generation / str(partition)).is_dir():
        return None
    is_child = len(plan.key_space.segments(partition)) > 1
    return None if is_child and not load_checkpoint(folder).report.outcomes else folder


def _verify(
    plan: VerificationPlan, log: PartitionLog, progress: LogProgress, checkpoint_folder: Path | None = None
) -> VerificationResult:
    """Verify from the start, or from the checkpoint in the folder `checkpoint_folder`."""
    new_checkpoint_folder = None if plan.generations is None else plan.generations.after / str(log.partition)
    with ExitStack() as stack:
        try:
            task = _PartitionTask(plan, log, stack, progress, checkpoint_folder)
            result = task.verify()
        except StalledError as error:
            raise explain_log_stall(log, error) from error
        if new_checkpoint_folder is not None and task.checkpoint is not None:
            with folder_errors(new_checkpoint_folder):
                task.scratch.store.close()
                write_checkpoint(new_checkpoint_folder, task.checkpoint, task.traces)
    return result


class _PartitionTask:
    """The verification of one partition, with its clients and temporary files, which the stack closes."""

    def __init__(
        self,
        plan: VerificationPlan,
        log: PartitionLog,
        stack: ExitStack,
        progress: LogProgress,
        checkpoint_folder: Path | None,
    ) -> None:
        self.plan, self.progress, self.stack = plan, progress, stack
        self.earlier_checkpoint = None if checkpoint_folder is None else load_checkpoint(checkpoint_folder)
        self.checkpoint: VerificationCheckpoint | None = None
        self.log, self.topics = log, log.topics
        self.group_consumer = stack.enter_context(closing(consumer(plan.connection, group=self.topics.group)))
        checkpoint_folders = None
        if plan.generations is not None:
            with folder_errors(plan.generations.after):
                checkpoint_folders = create_checkpoint_folder(
                    plan.generations.after / str(log.partition), checkpoint_folder
                )
        self.scratch, self.traces = open_scratch(stack, plan.window, checkpoint_folders)
        self.key_history = plan.key_space.history_of(log.partition)
        self.key_filter = plan.key_space.key_filter(log.partition)
        self.parents = find_parents(plan.key_space, log, self._read_log)
        self.aggregate = None if plan.package is None else load(log.topics.aggregate, plan.package, plan.root)

    def verify(self) -> VerificationResult:
        """Verify in this order: 1 read the committed offset · 2 read the ends of the logs, and the keys · 3 read the
        logs · 4 read the committed offset again · 5 check the decided commands · 6 compare the state, if requested.
        """
        self._check_history()
        committed_before = self._committed()
        bounds = {kind: self._bounds(kind) for kind in KINDS}
        self.progress.start(self._offsets_to_read(bounds))
        claim = parse_claim(committed_before.metadata)
        keys = latest_keys(self.plan, self.aggregate, self.key_filter, self.stack)
        scope, inherited = self._scope(claim, bounds, keys), None
        if self.parents is not None:
            is_continued = self.earlier_checkpoint is not None
            inherited = self.parents.inherit(scope, self.scratch, self.stack, is_continued=is_continued)
        verification = PartitionVerification(scope, self.scratch, self.earlier_checkpoint, inherited)
        steps = (
            verification.outcomes.read,
            verification.events.read,
            verification.dead_letters.read,
            verification.deferred.read,
        )
        for kind, step in zip(OWNER_LOGS, steps, strict=True):
            for records in self._read(kind, self._first_offset(kind, bounds[kind]), bounds[kind][1]):
                step(records)
        committed_after = self._committed()
        start, end = self._bounds("commands")
        self._check_claim(verification, claim, committed_before, end)
        decided_range = verification.decided_range(committed_before.offset, committed_after.offset, start)
        first_offset = self._first_unverified_command(start)
        commands = chain.from_iterable(
            self._read("commands", first_offset, min(end, verification.commands_end(decided_range)))
        )
        log_ends = {kind: bounds[kind][1] for kind in OWNER_LOGS} if self.plan.generations else None
        verification.check_commands(commands, decided_range, log_ends)
        if verification.checkpoint is not None:
            last_event, last_outcome = (
                self._last_evidence(kind, bounds[kind]) for kind in ("events", "outcomes")
            )
            self.checkpoint = replace(
                verification.checkpoint, last_event=last_event, last_outcome=last_outcome
            )
        if (committed_before.offset, bounds) == (
            committed_after.offset,
            {kind: self._bounds(kind) for kind in KINDS},
        ):
            undecided = self._read("commands", max(start, decided_range.decided_lower), end)
            verification.check_deferred_topic(chain.from_iterable(undecided))
        if keys is not None:
            later_events = self._read("events", bounds["events"][1], self._bounds("events")[1])
            keys.compare_with(verification.keys, self.scratch.store, chain.from_iterable(later_events))
        compared = self._compare_state(verification, decided_range.decided_lower, bounds["events"][1])
        earlier_report, records_read = (
            None if self.earlier_checkpoint is None else self.earlier_checkpoint.report,
            self.progress.records,
        )
        return VerificationResult(
            self.log.partition,
            verification.report(),
            earlier_report,
            compared=compared,
            records=records_read,
            keys_partition=0 if keys is None else keys.partition,
        )

    def _check_history(self) -> None:
        """Raise `CheckpointUnusableError` if the log is not the log of the checkpoint, as after a restore."""
        if self.earlier_checkpoint is None:
            return
        mismatch = history_mismatch(
            self.log, self.earlier_checkpoint.last_event, self.earlier_checkpoint.last_outcome
        )
        if mismatch:
            raise CheckpointUnusableError(
                f"the log has lost records that an earlier verify has read: {mismatch}"
            )

    def _last_evidence(self, kind: Kind, bounds: tuple[int, int]) -> Evidence | None:
        record = self.log.last_record(kind, *bounds)
        return None if record is None else evidence(record)

    def _compare_state(
        self, verification: PartitionVerification, decided_lower: int, end: int
    ) -> ShardComparison | None:
        topics, shards = self.plan.aggregate, self.plan.shards
        if shards is None or self.aggregate is None:
            return None
        events = partial(self._read, "events")
        parent_events = () if self.parents is None else self.parents.events()
        key_filter = None if self.key_history is None else self.key_filter
        check = StateCheck(self.log, topics, self.aggregate, shards, events, parent_events, key_filter)
        return check.compare(verification, decided_lower, end)

    def _offsets_to_read(self, bounds: Mapping[Kind, tuple[int, int]]) -> int:
        """Return the number of offsets of all logs; the events count twice if the state is compared."""
        spans = {kind: bounds[kind][1] - self._first_offset(kind, bounds[kind]) for kind in OWNER_LOGS}
        start, end = bounds["commands"]
        spans["commands"] = end - self._first_unverified_command(start)
        parent_offsets = 0 if self.parents is None else self.parents.offsets()
        return sum(spans.values()) + parent_offsets + (spans["events"] if self.plan.shards is not None else 0)

    def _first_unverified_command(self, start: int) -> int:
        """Return the offset from which to read the commands, whose log starts at `start`."""
        return (
            start if self.earlier_checkpoint is None else max(start, self.earlier_checkpoint.verified_until)
        )

    def _first_offset(self, kind: Kind, bounds: tuple[int, int]) -> int:
        """Return the offset from which to read a log; raise `ContradictionError` if the log has become shorter.

        The deferred topic is read from its start, because compaction may have removed any of its records.
        """
        start, end = bounds
        if self.earlier_checkpoint is None or kind == "deferred":
            return start
        if end < (read := self.earlier_checkpoint.read_until[kind]):
            raise ContradictionError(
                f"{self.log.log_name(kind)} ends at {end}, but an earlier verify has read it up to {read}: "
                "records were deleted at its end",
                "a broker that has just restarted may hide records: try again",
            )
        return max(start, read)

    def _scope(
        self, claim: Claim | None, bounds: Mapping[Kind, tuple[int, int]], keys: LatestKeys | None
    ) -> Scope:
        plan = self.plan
        return Scope(
            self.topics.aggregate,
            self.topics.commands,
            self.log.partition,
            {kind: start for kind, (start, _) in bounds.items()},
            plan.window,
            plan.key_space.partition_of,
            loss_of(claim),
            self._command_at,
            plan.aggregate.ids["commands"],
            plan.longest_window,
            check_shape if self.aggregate is None else partial(decode_event, self.aggregate),
            plan.max_earliness,
            self.key_history,
            {kind: end for kind, (_, end) in bounds.items()},
            has_fingerprint=fits_without_code
            if self.aggregate is None and keys is not None
            else fingerprint_check_of(self.aggregate),
            personal=None
            if keys is None
            else PersonalScope(keys.active_keys(), document_mask(self.aggregate)),
        )

    def _command_at(self, offset: int) -> Record | None:
        """Return the command at an offset, or None. It uses its own consumer, because the other is in use."""
        start, end = self._bounds("commands")
        return self.log.first_record("commands", offset, offset + 1) if start <= offset < end else None

    def _check_claim(
        self, verification: PartitionVerification, claim: Claim | None, committed: GroupCommit, end: int
    ) -> None:
        """Check the committed offset, and that the last claim has the ids and partition count of the present topics."""
        committed_offset = committed.offset or 0
        if committed_offset > end:
            verification.unstored_findings.add_violation(
                "commands", committed_offset, f"is the committed offset, though the log ends at {end}"
            )
        if claim is None or claim.topic_id == UNKNOWN_TOPIC:
            return
        events_id, outcomes_id = claim.other_ids
        claimed_ids: dict[Kind, str] = {
            "commands": claim.topic_id,
            "events": events_id,
            "outcomes": outcomes_id,
            "deferred": claim.deferred_id,
        }
        for kind, claimed_id in claimed_ids.items():
            if claimed_id not in (UNKNOWN_TOPIC, self.plan.aggregate.ids[kind]):
                problem = "is an offset of another topic: this one was created since"
                if kind != "commands":
                    problem = f"was committed with another {kind} topic: this one was created since"
                verification.unstored_findings.add_violation("commands", committed_offset, problem)
        count = self.key_filter.partition_count
        if claim.partitions != count:
            problem = f"was committed when there were {claim.partitions} partitions: now {count}"
            verification.unstored_findings.add_violation("commands", committed_offset, problem)

    def _committed(self) -> GroupCommit:
        """Return the group's committed offset; wait for a pending commit."""
        return self.log.committed_position_by(self.group_consumer, self.plan.transaction_timeout)

    def _bounds(self, kind: Kind) -> tuple[int, int]:
        """Return (start, high watermark)."""
        return self.log.bounds(kind, "read_uncommitted")

    def _read(self, kind: Kind, start: int, end: int) -> Iterator[list[Record]]:
        """Yield the committed records, events with their data from the payload store; wait for open transactions.

        Each log has its own consumer, because a consumer that changes to another topic waits up to a second for
        metadata. Four logs of 100 records took 2.0 s with one consumer and 0.15 s with four.
        """
        return self._read_log(self.log, kind, start, end)

    def _read_log(self, log: PartitionLog, kind: Kind, start: int, end: int) -> Iterator[list[Record]]:
        if start < end:
            with closing(bulk_consumer(self.plan.connection)) as reader:
                batches = log.read_with(reader, kind, start, end, self.plan.transaction_timeout)
                decoded = log.decode_events(batches) if kind == "events" else batches
                yield from self.progress.track(decoded, start, end)
