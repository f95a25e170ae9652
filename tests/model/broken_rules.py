"""The rules of the model, broken one at a time, each with the smallest scenario that shows it, and its effect."""

from typing import NamedTuple

from confluent_kafka import KafkaError
from msgspec.structs import replace as changed

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import VersionedState, fold_next
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.kafka.write_errors import is_caused_by_batch
from cqrs_cli.ownership.claim import Claim, Judgement, judge, terminal_claim
from tests.model.broker import last_stable
from tests.model.deciding import REPEATED
from tests.model.rules import OWNER_STEPS, Rules
from tests.model.world import Scenario


class Break(NamedTuple):
    """A broken rule."""

    rules: Rules
    scenario: Scenario
    wrong: str  # the broken promise


def judged_by_number(mine: Claim, committed_claim: Claim | None) -> Judgement:
    if committed_claim is None or committed_claim.n < mine.n:
        return Judgement.EARLIER
    return Judgement.OWN if committed_claim.n == mine.n else Judgement.LATER_RUN


def judged_without_attempts(mine: Claim, committed_claim: Claim | None) -> Judgement:
    judgement = judge(mine, committed_claim)
    return Judgement.OWN if judgement is Judgement.LATER_ATTEMPT else judgement


def believed_before_claiming(mine: Claim, claimed: bool, committed_claim: Claim | None) -> bool:
    return not claimed or judge(mine, committed_claim) is Judgement.OWN


def warmed_unless_the_visible_claim_is_its_owners(token: str, committed_claim: Claim | None) -> bool:
    return committed_claim is None or committed_claim.token != token


def folded_whatever_comes(
    aggregate: Aggregate, before: VersionedState | None, event: EventEnvelope
) -> VersionedState:
    version, state = (before.version, before.state) if before else (0, aggregate.decider.initial)
    _, offset, index = event.position()
    after = fold_next(aggregate, event.aggregateversion - 1, state, event)
    return VersionedState(version + 1, after, offset, index, event.time)


def blamed_for_timeouts(error: KafkaError) -> bool:
    return is_caused_by_batch(error) or error.code() == KafkaError._TIMED_OUT


def ended_by_an_ordinary_claim(committed_claim: Claim | None, run: str) -> Claim | None:
    last = terminal_claim(committed_claim, run)
    return changed(committed_claim, n=last.n) if last is not None and committed_claim is not None else None


TWO_RUNS = ((1, 0), (2, 0))
HERE, APART = (0, 0), (0, 1)
ALONE = Scenario("one run", ((1, 0),), (0,), faults=0)
NEIGHBOURS = Scenario("two runs on one machine", TWO_RUNS, HERE, faults=0)
DISTANT = Scenario("two runs on two machines", TWO_RUNS, APART, faults=0)

BREAKS = {
    "claims are judged by their number": Break(
        Rules(judge=judged_by_number), DISTANT, "exit 6, but no later run has claimed"
    ),
    "a straggler takes the retry's claim for its own": Break(
        Rules(judge=judged_without_attempts),
        Scenario("a run that is ended", ((1, 0),), (0,), faults=0, may_be_ended=True),
        "a run decides after it was ended",
    ),
    "a run is ended by an ordinary claim": Break(
        Rules(terminal=ended_by_an_ordinary_claim),
        Scenario("a run that is ended", ((1, 0),), (0,), faults=0, may_be_ended=True),
        "a run decides after it was ended",
    ),
    "being fenced is taken for a takeover": Break(
        Rules(fenced_says_nothing=False), DISTANT, "exit 6, but no later run has claimed"
    ),
    "the outcomes are looked at before the fence": Break(
        Rules(steps=("look", "fence", "claim", *OWNER_STEPS[3:])),
        DISTANT,
        "exit 5 without an operator's fault",
    ),
    "logs are read to the last stable offset": Break(
        Rules(end=last_stable),
        Scenario("one run", ((1, 0),), (0,), faults=2),
        "exit 5 without an operator's fault",
    ),
    "a contradiction is believed at once": Break(
        Rules(believable=lambda *_: True), DISTANT, "exit 5 without an operator's fault"
    ),
    "a contradiction is believed before claiming": Break(
        Rules(believable=believed_before_claiming), DISTANT, "exit 5 without an operator's fault"
    ),
    "the shard is written before the commit": Break(
        Rules(applies_after_the_commit=False), ALONE, "what is committed is not what the commands come to"
    ),
    "the shard is written without looking at token and positions": Break(
        Rules(shard_checks_token=False, shard_checks_positions=False),
        NEIGHBOURS,
        "an older state is written over a newer one",
    ),
    "the shard is written without looking at its token": Break(
        Rules(shard_checks_token=False), NEIGHBOURS, "somebody has written into a living owner's shard"
    ),
    "a living owner's shard is warmed": Break(
        Rules(may_warm=lambda *_: True),
        Scenario("two runs on one machine", TWO_RUNS, HERE, faults=0, warms=True),
        "somebody has written into a living owner's shard",
    ),
    "a living owner's shard is warmed while its claim is not visible": Break(
        Rules(may_warm=warmed_unless_the_visible_claim_is_its_owners),
        Scenario("two runs on one machine", TWO_RUNS, HERE, faults=0, warms=True, scattered=True),
        "somebody has written into a living owner's shard",
    ),
    "events are folded whatever their version": Break(
        Rules(fold_event=folded_whatever_comes), ALONE, "a shard that has seen 2 commands holds "
    ),
    "what was decided is forgotten across restarts": Break(
        Rules(remembers_across_restarts=False),
        Scenario("one run", ((1, 0),), (0,), faults=0, commands=REPEATED),
        "what is committed is not what the commands come to",
    ),
    "a refused record is ignored": Break(
        Rules(a_refused_record_stops_the_commit=False),
        Scenario("one run", ((1, 0),), (0,), faults=1),
        "a command is passed over",
    ),
    "timeouts blame the batch": Break(
        Rules(is_caused_by_batch=blamed_for_timeouts),
        Scenario("one run", ((1, 0),), (0,), faults=1),
        "exit 1 without an operator's fault",
    ),
}
