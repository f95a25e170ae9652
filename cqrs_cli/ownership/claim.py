"""Claims: the owner of a partition, as a value in the metadata of its offset commits.

Runs are totally ordered by (run_epoch, run); attempts within a run by (submission, Spark's attempt number).
"""

from enum import Enum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cqrs_cli.ownership.trials.suspects import Trial, inherit

#: The broker's limit on an offset commit's metadata (`offset.metadata.max.bytes`), in bytes.
MAX_METADATA = 4096

#: The attempt of a terminal claim, which ends its run. No task has so high an attempt.
TERMINAL = 2**31 - 1

#: In place of a topic id: the claim replaced a commit without a claim, so it is unknown which topic its offset belongs
#: to.
UNKNOWN_TOPIC = ""
UNKNOWN_OTHERS = (UNKNOWN_TOPIC, UNKNOWN_TOPIC)


class Counts(Struct, frozen=True, gc=False, omit_defaults=True):
    """An owner's decisions since its run began, by status. `first`: the time when the first batch began; `last`: the
    time of the last commit (ms since the epoch).
    """

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
        """Return these counts plus the counts `more` of a batch that began and was committed at these times (ms)."""
        sums = {name: getattr(self, name) + count for name, count in more.items()}
        return Counts(**sums, first=self.first or began, last=now)


class Accepted(Struct, frozen=True):
    """A loss that an operator accepted (`run --accept-loss`): the offset to continue from, and the ends of the logs at
    that time. Earlier records may contradict each other. Sample: `Accepted(at=1200, events=(0, 3400), outcomes=1180)`.
    """

    at: int  # offset in the commands topic
    events: tuple[int, int]  # start and end
    outcomes: int  # end


class Claim(Struct, frozen=True, omit_defaults=True, rename={"run_epoch": "generation"}):
    """The owner of a partition. `n` rises with every claim of the partition, across runs.

    Sample:
    `{"generation":1764547200000,"run":"0f3c9a7b21de","submission":0,"attempt":0,"n":7,"topic_id":"…","partitions":8}`
    """

    run_epoch: int
    run: str
    submission: int
    attempt: int
    n: int
    topic_id: str
    partitions: int
    counts: Counts = Counts()
    accepted: Accepted | None = None
    other_ids: tuple[str, str] = UNKNOWN_OTHERS  # topic ids of the events and the outcomes
    deferred_id: str = UNKNOWN_TOPIC  # topic id of the deferred commands
    untried: bool = False  # no command was decided under this claim yet
    trial: Trial | None = None  # poison-record detection, while it is in progress
    lineage: int = 0  # 1: its owner waits for splits, which owners of older versions would not do

    def metadata(self) -> str:
        """Return the JSON text for the metadata of an offset commit."""
        return msgspec.json.encode(self).decode()

    @property
    def token(self) -> str:
        """The owner's name in the shard, such as `7.1764547200000.0f3c9a7b21de.0.0`. It is unique even if `n` started
        again after an offset had expired.
        """
        return f"{self.n}.{self.run_epoch}.{self.run}.{self.submission}.{self.attempt}"


def parse_claim(metadata: str | None) -> Claim | None:
    """Return the claim in an offset commit's metadata; None for the commit of another client."""
    try:
        return msgspec.json.decode((metadata or "").encode(), type=Claim)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None


class Judgement(Enum):
    """The relation of the committed claim to an owner's own claim."""

    MINE = "mine"  # my run and attempt; `n` may differ
    TAKEN_OVER = "taken over"  # a later run: return; the run ends with exit code 6
    STRAGGLER = "straggler"  # a later attempt of my run: return without an error
    BEHIND = "behind"  # an older run or attempt, or no claim: continue

    @property
    def ends(self) -> bool:
        """True if the owner must return."""
        return self in (Judgement.TAKEN_OVER, Judgement.STRAGGLER)


def judge(mine: Claim, committed_claim: Claim | None) -> Judgement:
    """Judge the committed claim by run and attempt, never by `n` alone: `n` also rises when an older run comes back."""
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
    """Return my claim as the successor of the committed claim, over a shard with this token. Its `n` is above the `n`
    of my claim, of the committed claim and of the token.

    The topic ids, the partition count and the accepted loss of the committed claim are copied unchecked. Step 3
    (`deciding.position`) compares them with the log when the owner starts.
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
    """Return my claim before any decision, with the poison-record detection that I take over from the committed claim.

    The previous owner did not die if it ran in this process, or if its run was ended by a terminal claim. `most`:
    commands in a batch.
    """
    if committed_claim is None:
        return replace(mine, untried=True)
    lives = judge(mine, committed_claim) is Judgement.MINE
    died = not lives and committed_claim.attempt != TERMINAL
    return replace(
        mine, untried=True, trial=inherit(committed_claim.trial, committed_claim.untried, died, most)
    )


def progressed(claim: Claim, counts: Counts, decided: int, end: int) -> Claim:
    """Return the claim to commit with a batch of `decided` commands below the offset `end`."""
    trial = None if claim.trial is None else claim.trial.passed(decided, end)
    return replace(claim, counts=counts, untried=False, trial=trial)


def condemned(claim: Claim, offset: int, seconds: int) -> Claim:
    """Return the claim that a task commits before it kills itself, because the command at `offset` has not been decided
    after so many seconds.
    """
    trial = (claim.trial or Trial()).endless(offset, seconds)
    return replace(claim, untried=False, trial=trial, n=claim.n + 1)


def may_warm(token: str, committed_claim: Claim | None) -> bool:
    """Return True if the shard may be folded without a fence: the owner named by its token has been superseded. The
    token must be read before the committed claim.

    A living owner would find its shard at other positions, and would have to start again. The claim of an owner that
    has just started may not be visible yet.
    """
    return not token or (committed_claim is not None and committed_claim.n > _number(token))


def believable(mine: Claim, claimed: bool, committed_claim: Claim | None) -> bool:
    """Return True if an inconsistency is real; call it after the inconsistency was found.

    It is real only while the committed claim is mine, or while there is no claim and I have not claimed yet. Otherwise
    another owner took over while I was reading.
    """
    if committed_claim is None:
        return not claimed
    return judge(mine, committed_claim) is Judgement.MINE


def terminal(committed_claim: Claim | None, run: str) -> Claim | None:
    """Return the terminal claim of `run`; None if the committed claim is another run's, or is terminal already."""
    if committed_claim is None or committed_claim.run != run:
        return None
    if committed_claim.attempt == TERMINAL:
        return None
    return replace(committed_claim, submission=TERMINAL, attempt=TERMINAL, n=committed_claim.n + 1)


def _number(token: str) -> int:
    """Return the `n` in a shard's token; 0 for an empty token."""
    head = token.partition(".")[0]
    return int(head) if head.isdigit() else 0


def next_run_epoch(clock: int, seen: list[Claim | None]) -> int:
    """Return the epoch of a new run: above every epoch seen, and not before the clock (ms)."""
    return max([clock, *(claim.run_epoch + 1 for claim in seen if claim is not None)])
