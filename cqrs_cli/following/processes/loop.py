"""Step 3: read events, react, and commit the commands with the position in one transaction."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from cqrs_cli import failpoints
from cqrs_cli.core.aggregate.invalid import raised
from cqrs_cli.core.fold import FoldError
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.react import InvalidReaction, reaction
from cqrs_cli.core.recorded import record_event
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.following.processes.compose import ComposedCommand, Composer
from cqrs_cli.following.processes.explain import blamed_event
from cqrs_cli.following.processes.load import PROCESSES, LoadedProcess
from cqrs_cli.following.processes.owner import ProcessOwner
from cqrs_cli.kafka.event_tail import Tell
from cqrs_cli.kafka.readers import watermarks
from cqrs_cli.kafka.write_errors import BatchLateError, BatchRefusedError
from cqrs_cli.ownership.claim import progressed
from cqrs_cli.ownership.signals import BatchTooLarge
from cqrs_cli.ownership.trials.gate import GATE
from cqrs_cli.telemetry.blocked import BlockedFile


class StoppedError(Exception):
    """The process cannot go past an event; `error` ends the run."""

    def __init__(self, offset: int, error: CqrsError) -> None:
        super().__init__(error.message)
        self.offset, self.error = offset, error


class ReactLoop:
    """One owner at work. `refused`: an event whose commands a topic does not take, and why."""

    def __init__(
        self,
        owner: ProcessOwner,
        loaded: LoadedProcess,
        composer: Composer,
        batch_limit: int,
        refused: tuple[int, str] | None,
        note: Tell,
        blocked: BlockedFile,
    ) -> None:
        self.owner, self.loaded, self.composer = owner, loaded, composer
        self.batch_limit, self.refused, self.note = batch_limit, refused, note
        self.blocked = blocked
        self.aggregate = loaded.sources[owner.subscription.source.aggregate]
        self.events = self.commands = 0
        self.left: list[Record] = []  # read, but not in the batch that was cut
        self.at = self.reached = 0
        self.reacting: Record | None = None  # the event that `react` has now
        self.blamed = blamed_event(owner.mine.trial)

    def run(self, start: int, stopping: Callable[[], bool]) -> None:
        """React until the target is reached or `stopping()` says so. Raises what stops the process at an event."""
        owner, timing = self.owner, self.owner.plan.timing
        targets = owner.plan.targets
        target = None if targets is None else targets[owner.subscription]
        self.at = self.reached = start
        tail = owner.tail(start, self._wait)
        checked = refreshed = time.monotonic()
        while not stopping() and (target is None or self.at < target):
            records = self.left
            if not records:
                records, self.reached = tail.poll(self._limit)
            if records:
                batch = records[: self._limit]
                with self._admitted(batch):
                    self._react_and_commit(batch, records)
                checked = time.monotonic()
                continue
            self.at = max(self.at, self.reached)  # past markers of transactions
            if (now := time.monotonic()) - checked >= timing.idle_check:
                owner.check_claim()
                checked = now
                self._acquit()
                if self.at != self._committed() or now - refreshed > timing.offset_refresh:
                    owner.commit([], self.at)
                    refreshed = now
        if self.at != self._committed():
            owner.commit([], self.at)

    @property
    def _limit(self) -> int:
        trial = self.owner.mine.trial
        return self.batch_limit if trial is None else min(self.batch_limit, trial.limit)

    @contextmanager
    def _admitted(self, records: list[Record]) -> Iterator[None]:
        """Let a batch through the gate of this Python process; a suspect goes alone, and is announced first."""
        owner, trial = self.owner, self.owner.mine.trial
        if trial is None or trial.limit > 1:
            with GATE.shared():
                yield
            return
        with GATE.alone():
            owner.mine = replace(owner.mine, trial=trial.announce(records[0].offset))
            owner.commit([], self.at)
            yield

    def _acquit(self) -> None:
        """End a trial at the end of the log: the suspects are reacted to, or gone."""
        owner, source = self.owner, self.owner.subscription.source
        if owner.mine.trial is None:
            return
        if watermarks(owner.watcher, source.topic, source.partition)[1] <= self.at:
            owner.mine = replace(owner.mine, trial=None)
            owner.commit([], self.at)

    def _wait(self, why: str) -> None:
        """Note what the process waits for while it reads; status says so until it has reacted to something."""
        self.note(why)
        self.blocked.tell(why)

    def _committed(self) -> int | None:
        return self.owner.position.offset if self.owner.position else None

    def _react_and_commit(self, records: list[Record], polled: list[Record]) -> None:
        """A batch: as many of the records as one transaction should have. The rest is `left`."""
        owner, timing = self.owner, self.owner.plan.timing
        failpoints.reached("decide.before")
        commands: list[ComposedCommand] = []
        until, size, done, reacted = time.monotonic() + timing.deciding, 0, 0, 0
        stopped: StoppedError | None = None
        for record in records:
            self.reacting = record
            try:
                sent = self._react(record)
            except StoppedError as error:
                stopped = error
                break
            finally:
                self.reacting = None
            done += 1
            if sent is None:
                continue
            reacted += 1
            commands += sent
            size += sum(one.size for one in sent)
            if size > timing.batch_bytes or time.monotonic() > until:
                break
        failpoints.reached("decide.after")
        self.left = polled[done:]
        end = self.left[0].offset if self.left else self.reached
        self._commit(commands, end, records[0].offset, done, stopped)
        self.at = end
        self.events += reacted
        self.commands += len(commands)
        self.blocked.tell("")
        owner.useful = owner.useful or done > 0
        self.batch_limit = min(self.batch_limit * 2, timing.batch_limit)
        if stopped is not None:
            raise stopped.error

    def _commit(
        self, commands: list[ComposedCommand], end: int, first: int, size: int, stopped: StoppedError | None
    ) -> None:
        owner, before = self.owner, self.owner.position
        assert before is not None
        claim = progressed(owner.mine, owner.mine.counts, size, end)
        if stopped is not None:
            claim = replace(claim, trial=None)  # corrected code is not to be blamed
        position = replace(
            before, offset=end, claim=claim, stopped=None if stopped is None else stopped.offset
        )
        try:
            owner.commit(commands, end, position)
            owner.mine = claim
        except BatchRefusedError as error:
            late = isinstance(error, BatchLateError)
            raise BatchTooLarge(first, size, str(error), late, False) from error

    def _react(self, record: Record) -> list[ComposedCommand] | None:
        """The commands that a record leads to; None for an event that the process does not hear."""
        source, loaded = self.owner.subscription.source, self.loaded
        try:
            recorded = record_event(
                self.aggregate, record.value, source.topic, source.partition, record.offset
            )
        except FoldError as error:
            raise StoppedError(record.offset, self._unreadable(record, error)) from error
        if type(recorded.event) not in loaded.events:
            return None
        kind = f"{source.aggregate}.{type(recorded.event).__name__}"
        about = f"({recorded.aggregate_id!r}, version {recorded.version})"
        if self.blamed is not None and self.blamed.offset == record.offset:
            raise self._stop(record, f"cannot go past {kind}", about, self.blamed.why)
        if self.refused is not None and self.refused[0] == record.offset:
            raise self._stop(record, f"cannot send for {kind}", about, self.refused[1])
        try:
            return self.composer.compose(recorded, reaction(loaded.process, recorded))
        except InvalidReaction as error:
            raise self._stop(record, f"was wrong about {kind}", about, f"{loaded.place}: {error}") from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the author's own code: anything may come
            raise self._stop(record, f"raised on {kind}", about, raised(error, PROCESSES)) from error

    def _stop(self, record: Record, what: str, about: str, why: str) -> StoppedError:
        place = self._place(record)
        error = CqrsError(
            f"process {self.loaded.name} {what} {place} {about}: {' '.join(why.split())}",
            f"correct it and start again; or leave this event out: {self._way_out(record)}",
        )
        return StoppedError(record.offset, error)

    def _unreadable(self, record: Record, error: FoldError) -> CqrsError:
        return ContradictionError(
            f"{self._place(record)}: {error}",
            f"deploy the code that reads it; or leave this event out: {self._way_out(record)}",
        )

    def _place(self, record: Record) -> str:
        source = self.owner.subscription.source
        return f"{source.topic}:{source.partition}@{record.offset}"

    def _way_out(self, record: Record) -> str:
        source, name = self.owner.subscription.source, self.loaded.name
        return f"cqrs process {name} --skip {name}:{source.aggregate}:{source.partition}@{record.offset}"
