"""The task of `cqrs verify` on a worker: read one partition's topics with librdkafka, and verify them.

The order of the steps matters if owners decide during the task: the committed offset is read before and after the
logs, so it is known which commands were certainly decided.
"""

from collections.abc import Mapping
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from cqrs_cli.core.fold import decode_event
from cqrs_cli.deciding.errors import explain_log_stall
from cqrs_cli.deciding.history_check import history_mismatch
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.readers import StalledError
from cqrs_cli.kafka.topics.topics import KINDS, Kind
from cqrs_cli.ownership.claim import Claim, parse_claim
from cqrs_cli.proof.documents import document_redactor
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
from cqrs_cli.scans.verify.claim_check import check_claim
from cqrs_cli.scans.verify.keys import LatestKeys, latest_keys
from cqrs_cli.scans.verify.parents import find_parents, loss_of
from cqrs_cli.scans.verify.partition_reader import PartitionReader
from cqrs_cli.scans.verify.plan import VerificationPlan, VerificationResult
from cqrs_cli.scans.verify.scratch import open_scratch
from cqrs_cli.scans.verify.state import ShardComparison, StateCheck

#: The topics that owners write, in the order in which they are read.
OWNER_LOGS: tuple[Kind, ...] = ("outcomes", "events", "dead-letters", "deferred")


def verify_partition(plan: VerificationPlan, partition: int) -> VerificationResult:
    """Verify one partition. Returns an error as a value, so that no Spark task fails."""
    log = PartitionLog(
        plan.connection, plan.aggregate_topics.topics, partition, plan.connection.payload_codec()
    )

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
    """Return the folder of the partition's checkpoint, or None. The checkpoint of a child partition without outcomes is
    not used: the verification starts with the parents again.
    """
    generation = None if plan.checkpoints is None else plan.checkpoints.earlier
    if generation is None or not (folder := generation / str(partition)).is_dir():
        return None
    is_child = len(plan.key_space.segments(partition)) > 1
    return None if is_child and not load_checkpoint(folder).report.outcomes else folder


def _verify(
    plan: VerificationPlan, log: PartitionLog, progress: LogProgress, checkpoint_folder: Path | None = None
) -> VerificationResult:
    """Verify from the start of the logs, or from the earlier checkpoint in `checkpoint_folder`."""
    new_checkpoint_folder = None if plan.checkpoints is None else plan.checkpoints.new / str(log.partition)
    with ExitStack() as stack:
        try:
            task = _PartitionTask(plan, log, stack, progress, checkpoint_folder)
            result = task.verify()
        except StalledError as error:
            raise explain_log_stall(log, error) from error
        if new_checkpoint_folder is not None and task.new_checkpoint is not None:
            with folder_errors(new_checkpoint_folder):
                task.scratch.store.close()
                write_checkpoint(new_checkpoint_folder, task.new_checkpoint, task.indexes)
    return result


class _PartitionTask:
    """The verification of one partition. `stack` closes its consumers and temporary files."""

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
        self.new_checkpoint: VerificationCheckpoint | None = None
        self.log, self.topics = log, log.topics
        self.reader = PartitionReader(plan, log, stack, progress, self.earlier_checkpoint)
        lmdb_folders = None
        if plan.checkpoints is not None:
            with folder_errors(plan.checkpoints.new):
                lmdb_folders = create_checkpoint_folder(
                    plan.checkpoints.new / str(log.partition), checkpoint_folder
                )
        self.scratch, self.indexes = open_scratch(stack, plan.dedup_window, lmdb_folders)
        self.key_history = plan.key_space.history_of(log.partition)
        self.key_filter = plan.key_space.key_filter(log.partition)
        self.parents = find_parents(plan.key_space, log, self.reader.read_log)
        self.aggregate = None if plan.package is None else load(log.topics.aggregate, plan.package, plan.root)

    def verify(self) -> VerificationResult:
        """Verify in this order: 1 read the committed offset · 2 read the ends of the logs, and the keys · 3 read the
        logs · 4 read the committed offset again · 5 check the decided commands · 6 compare the shard, if requested.
        """
        self._check_history()
        reader = self.reader
        committed_before = reader.read_committed()  # 1
        decided_before = reader.read_decided_end(committed_before)
        bounds = {kind: reader.read_bounds(kind) for kind in KINDS}  # 2
        self.progress.start(self._offsets_to_read(bounds))
        claim = parse_claim(committed_before.metadata)
        keys = latest_keys(self.plan, self.aggregate, self.key_filter, self.stack)
        scope, inherited = self._scope(claim, bounds, keys), None
        if self.parents is not None:
            is_continued = self.earlier_checkpoint is not None
            inherited = self.parents.inherit(scope, self.scratch, self.stack, is_continued=is_continued)
        verification = PartitionVerification(scope, self.scratch, self.earlier_checkpoint, inherited)
        self._read_owner_logs(verification, bounds)  # 3
        committed_after = reader.read_committed()  # 4
        start, end = reader.read_bounds("commands")
        ids, partition_count = self.plan.aggregate_topics.ids, self.key_filter.partition_count
        check_claim(verification.unstored_findings, committed_before, end, ids, partition_count)
        decided_range = verification.find_decided_range(
            decided_before, reader.read_decided_end(committed_after), start
        )
        first_offset = reader.first_unverified_command(start)
        commands = chain.from_iterable(
            reader.read("commands", first_offset, min(end, verification.commands_end(decided_range)))
        )
        log_ends = {kind: bounds[kind][1] for kind in OWNER_LOGS} if self.plan.checkpoints else None
        verification.check_commands(commands, decided_range, log_ends)  # 5
        self._take_checkpoint(verification, bounds)
        bounds_after = {kind: reader.read_bounds(kind) for kind in KINDS}
        if (committed_before.offset, bounds) == (committed_after.offset, bounds_after):
            undecided = reader.read("commands", max(start, decided_range.decided_lower), end)
            verification.check_deferred_topic(chain.from_iterable(undecided))
        if keys is not None:
            later_events = reader.read("events", bounds["events"][1], reader.read_bounds("events")[1])
            keys.compare_with(verification.keys, self.scratch.store, chain.from_iterable(later_events))
        events_end = bounds["events"][1]
        shard_comparison = self._compare_state(verification, decided_range.decided_lower, events_end)  # 6
        earlier_report = None if self.earlier_checkpoint is None else self.earlier_checkpoint.report
        return VerificationResult(
            self.log.partition,
            verification.report(),
            earlier_report,
            shard_comparison=shard_comparison,
            records=self.progress.records,
            keys_partition=0 if keys is None else keys.partition,
        )

    def _read_owner_logs(
        self, verification: PartitionVerification, bounds: Mapping[Kind, tuple[int, int]]
    ) -> None:
        read_methods = (
            verification.outcomes.read,
            verification.events.read,
            verification.dead_letters.read,
            verification.deferred.read,
        )
        for kind, read_records in zip(OWNER_LOGS, read_methods, strict=True):
            for records in self.reader.read(
                kind, self.reader.first_offset(kind, bounds[kind]), bounds[kind][1]
            ):
                read_records(records)

    def _take_checkpoint(
        self, verification: PartitionVerification, bounds: Mapping[Kind, tuple[int, int]]
    ) -> None:
        """Set `new_checkpoint`. It has the hashes of the last records, from which the next verification recognises the
        log.
        """
        if verification.new_checkpoint is not None:
            self.new_checkpoint = replace(
                verification.new_checkpoint,
                last_event=self.reader.last_evidence("events", bounds["events"]),
                last_outcome=self.reader.last_evidence("outcomes", bounds["outcomes"]),
            )

    def _check_history(self) -> None:
        """Raise `CheckpointUnusableError` if records of the earlier checkpoint are gone, as after a restore."""
        if self.earlier_checkpoint is None:
            return
        mismatch = history_mismatch(
            self.log, self.earlier_checkpoint.last_event, self.earlier_checkpoint.last_outcome
        )
        if mismatch:
            raise CheckpointUnusableError(
                f"the log has lost records that an earlier verify has read: {mismatch}"
            )

    def _compare_state(
        self, verification: PartitionVerification, decided_lower: int, end: int
    ) -> ShardComparison | None:
        topics, shards_folder = self.plan.aggregate_topics, self.plan.shards_folder
        if shards_folder is None or self.aggregate is None:
            return None
        events = partial(self.reader.read, "events")
        parent_events = () if self.parents is None else self.parents.events()
        key_filter = None if self.key_history is None else self.key_filter
        check = StateCheck(self.log, topics, self.aggregate, shards_folder, events, parent_events, key_filter)
        return check.compare(verification, decided_lower, end)

    def _offsets_to_read(self, bounds: Mapping[Kind, tuple[int, int]]) -> int:
        """Return the number of offsets to read in all logs. The events count twice if a shard is compared."""
        spans = {kind: bounds[kind][1] - self.reader.first_offset(kind, bounds[kind]) for kind in OWNER_LOGS}
        start, end = bounds["commands"]
        spans["commands"] = end - self.reader.first_unverified_command(start)
        parent_offsets = 0 if self.parents is None else self.parents.offset_count()
        return (
            sum(spans.values())
            + parent_offsets
            + (spans["events"] if self.plan.shards_folder is not None else 0)
        )

    def _scope(
        self, claim: Claim | None, bounds: Mapping[Kind, tuple[int, int]], keys: LatestKeys | None
    ) -> Scope:
        plan = self.plan
        return Scope(
            self.topics.aggregate,
            self.topics.commands,
            self.log.partition,
            {kind: start for kind, (start, _) in bounds.items()},
            plan.dedup_window,
            plan.key_space.partition_of,
            loss_of(claim),
            self.reader.command_at,
            plan.aggregate_topics.ids["commands"],
            plan.longest_window,
            check_shape if self.aggregate is None else partial(decode_event, self.aggregate),
            plan.clock_tolerance,
            self.key_history,
            {kind: end for kind, (_, end) in bounds.items()},
            fits_command=fits_without_code
            if self.aggregate is None and keys is not None
            else fingerprint_check_of(self.aggregate),
            personal=None
            if keys is None
            else PersonalScope(keys.damage_finder(), document_redactor(self.aggregate)),
        )
