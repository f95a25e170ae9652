"""Claims: who owns a partition, as a value that rides in the metadata of its offset commits.

Runs are totally ordered by (run_epoch, run); attempts within a run by (submission, Spark's attempt number).
"""

from enum import Enum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cqrs_cli.ownership.trials.trial import Trial, inherit

#: The broker's limit on an offset commit's metadata (`offset.metadata.max.bytes`), in bytes.
MAX_METADATA = 4096

#: The attempt of a claim that ends its run: no task's attempt is higher.
TERMINAL = 2**31 - 1

#: In a claim that was put upon somebody else's offset: nothing says yet that it belongs to the log.
UNKNOWN_TOPIC = ""
UNKNOWN_OTHERS = (UNKNOWN_TOPIC, UNKNOWN_TOPIC)


class Counts(Struct, frozen=True, gc=False, omit_defaults=True):
    """An owner's decisions since its run began, and the times (ms since the epoch) of the first and last commit."""

    accepted: int = 0
    unchanged: int = 0
    rejected: int = 0
    deferred: int = 0
    duplicate: int = 0
    failed: int = 0
    events: int = 0
    first: int = 0
    last: int = 0

    @property
    def commands(self) -> int:
        return self.accepted + self.unchanged + self.rejected + self.deferred + self.duplicate + self.failed

    def add(self, more: dict[str, int], began: int, now: int) -> "Counts":
        """These counts and those of one more batch, begun and committed at these times (ms)."""
        sums = {name: getattr(self, name) + count for name, count in more.items()}
        return Counts(**sums, first=self.first or began, last=now)


class Accepted(Struct, frozen=True):
    """A loss that an operator accepted (`run --accept-loss`): where the commands go on, and how far the logs reached
    then. Records before that may contradict each other.
    """

    at: int  # of the commands
    events: tuple[int, int]  # start and end
    outcomes: int  # end


class Claim(Struct, frozen=True, omit_defaults=True, rename={"run_epoch": "generation"}):
    """`n` rises with every claim of the partition, across runs."""

    run_epoch: int
    run: str
    submission: int
    attempt: int
    n: int
    topic_id: str
    partitions: int
    counts: Counts = Counts()
    accepted: Accepted | None = None
    other_ids: tuple[str, str] = UNKNOWN_OTHERS  # of the events and the outcomes topic
    deferred_id: str = UNKNOWN_TOPIC  # of the deferred topic
    untried: bool = False  # nothing was decided under it yet
    trial: Trial | None = None  # open while a command is suspected of killing workers
    lineage: int = 0  # 1: its owner knows that partitions grow; an older version's would not wait for a split

    def metadata(self) -> str:
        """The text that rides in an offset commit."""
        return msgspec.json.encode(self).decode()

    @property
    def token(self) -> str:
        """The owner's name in the shard. No other owner has it, even if `n` began again after an offset expired."""
        return f"{self.n}.{self.run_epoch}.{self.run}.{self.submission}.{self.attempt}"


def parse_claim(metadata: str | None) -> Claim | None:
    """The claim in an offset commit's metadata; None if there is none (a foreign commit)."""
    try:
        return msgspec.json.decode((metadata or "").encode(), type=Claim)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None


class Judgement(Enum):
    """The meaning of the committed claim for an owner."""

    MINE = "mine"  # my run and attempt, whatever its n
    TAKEN_OVER = "taken over"  # a later run: return, the run ends with exit 6
    STRAGGLER = "straggler"  # a later attempt of my run: return quietly
    BEHIND = "behind"  # anything else: go on

    @property
    def ends(self) -> bool:
        """True if the owner returns."""
        return self in (Judgement.TAKEN_OVER, Judgement.STRAGGLER)


def judge(mine: Claim, committed_claim: Claim | None) -> Judgement:
    """Judge the committed claim by run and attempt, never by `n` alone: n rises also when an older run comes back."""
    if committed_claim is None:
        return Judgement.BEHIND
    run, other = (mine.run_epoch, mine.run), (committed_claim.run_epoch, committed_claim.run)
    if other > run:
        return Judgement.TAKEN_OVER
    if other < run:
        return Judgement.BEHIND
    attempt, another = (mine.submission, mine.attempt), (committed_claim.submission, committed_claim.attempt)
    if another > attempt:
        return Judgement.STRAGGLER
    return Judgement.MINE if another == attempt else Judgement.BEHIND


def succeed(mine: Claim, committed_claim: Claim | None, token: str) -> Claim:
    """My claim as it replaces the committed one, over a shard with this token: `n` rises above all three.

    It keeps what the committed claim says of the log, unchecked: step 3 judges by it where the owner begins.
    """
    n = 1 + max(mine.n, _number(token), committed_claim.n if committed_claim else 0)
    if committed_claim is None:
        return replace(
            mine,
            n=n,
            topic_id=UNKNOWN_TOPIC,
            accepted=None,
            other_ids=UNKNOWN_OTHERS,
            deferred_id=UNKNOWN_TOPIC,
        )
    return replace(
        mine,
        n=n,
        topic_id=committed_claim.topic_id,
        partitions=committed_claim.partitions,
        accepted=committed_claim.accepted,
        other_ids=committed_claim.other_ids,
        deferred_id=committed_claim.deferred_id,
    )


def suspect(mine: Claim, committed_claim: Claim | None, most: int) -> Claim:
    """My claim, before anything is decided, with the trial that the committed one leaves to me.

    The owner before did not die if it was of this process, or if its run was ended. `most`: commands in a batch.
    """
    if committed_claim is None:
        return replace(mine, untried=True)
    lives = judge(mine, committed_claim) is Judgement.MINE
    died = not lives and committed_claim.attempt != TERMINAL
    return replace(
        mine, untried=True, trial=inherit(committed_claim.trial, committed_claim.untried, died, most)
    )


def progressed(claim: Claim, counts: Counts, decided: int, end: int) -> Claim:
    """The claim that is committed with a batch of this many commands below `end`."""
    trial = None if claim.trial is None else claim.trial.passed(decided, end)
    return replace(claim, counts=counts, untried=False, trial=trial)


def condemned(claim: Claim, offset: int, seconds: int) -> Claim:
    """The claim that a task leaves which it ends because the command at `offset` does not end."""
    trial = (claim.trial or Trial()).endless(offset, seconds)
    return replace(claim, untried=False, trial=trial, n=claim.n + 1)


def may_warm(token: str, committed_claim: Claim | None) -> bool:
    """True if no owner works in a shard whose token was read before the committed claim: its owner's claim must be
    over. A living owner would find its shard at other positions, and have to begin again; the claim of one that has
    just begun may not be visible yet.
    """
    return not token or (committed_claim is not None and committed_claim.n > _number(token))


def believable(mine: Claim, claimed: bool, committed_claim: Claim | None) -> bool:
    """True if a contradiction is to be believed, asked after I saw it.

    Only while the committed claim is mine, or while there is no claim and I have not claimed yet. Otherwise another
    owner took over while I was reading.
    """
    if committed_claim is None:
        return not claimed
    return judge(mine, committed_claim) is Judgement.MINE


def terminal(committed_claim: Claim | None, run: str) -> Claim | None:
    """The claim that ends a run, to replace the committed one; None if that is not the run's, or its end."""
    if committed_claim is None or committed_claim.run != run:
        return None
    if committed_claim.attempt == TERMINAL:
        return None
    return replace(committed_claim, submission=TERMINAL, attempt=TERMINAL, n=committed_claim.n + 1)


def _number(token: str) -> int:
    """The `n` of the claim that a shard's token comes from, 0 for none."""
    head = token.partition(".")[0]
    return int(head) if head.isdigit() else 0


def next_run_epoch(clock: int, seen: list[Claim | None]) -> int:
    """The run epoch of a new run: after every one seen, and not before the clock (ms)."""
    return max([clock, *(claim.run_epoch + 1 for claim in seen if claim is not None)])
