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


class BrokenRule(NamedTuple):
    """A broken rule."""

    rules: Rules
    scenario: Scenario
    broken_promise: str


def judge_by_number(own_claim: Claim, committed_claim: Claim | None) -> Judgement:
    if committed_claim is None or committed_claim.n < own_claim.n:
        return Judgement.EARLIER
    return Judgement.OWN if committed_claim.n == own_claim.n else Judgement.LATER_RUN


def judge_without_attempts(own_claim: Claim, committed_claim: Claim | None) -> Judgement:
    judgement = judge(own_claim, committed_claim)
    return Judgement.OWN if judgement is Judgement.LATER_ATTEMPT else judgement


def believe_before_claiming(own_claim: Claim, claimed: bool, committed_claim: Claim | None) -> bool:
    return not claimed or judge(own_claim, committed_claim) is Judgement.OWN


def may_warm_unless_claim_is_visible(token: str, committed_claim: Claim | None) -> bool:
    return committed_claim is None or committed_claim.token != token


def fold_any_version(
    aggregate: Aggregate, before: VersionedState | None, event: EventEnvelope
) -> VersionedState:
    version, state = (before.version, before.state) if before else (0, aggregate.decider.initial)
    _, offset, index = event.position()
    after = fold_next(aggregate, event.aggregateversion - 1, state, event)
    return VersionedState(version + 1, after, offset, index, event.time)


def blames_batch_for_timeouts(error: KafkaError) -> bool:
    return is_caused_by_batch(error) or error.code() == KafkaError._TIMED_OUT


def ordinary_claim_as_terminal(committed_claim: Claim | None, run: str) -> Claim | None:
    terminal = terminal_claim(committed_claim, run)
    return (
        changed(committed_claim, n=terminal.n)
        if terminal is not None and committed_claim is not None
        else None
    )


TWO_RUNS = ((1, 0), (2, 0))
SAME_MACHINE, TWO_MACHINES = (0, 0), (0, 1)
ONE_RUN = Scenario("one run", ((1, 0),), (0,), faults=0)
RUNS_ON_ONE_MACHINE = Scenario("two runs on one machine", TWO_RUNS, SAME_MACHINE, faults=0)
RUNS_ON_TWO_MACHINES = Scenario("two runs on two machines", TWO_RUNS, TWO_MACHINES, faults=0)

BREAKS = {
    "claims are judged by their number": BrokenRule(
        Rules(judge=judge_by_number), RUNS_ON_TWO_MACHINES, "exit 6, but no later run has claimed"
    ),
    "a straggler takes the retry's claim for its own": BrokenRule(
        Rules(judge=judge_without_attempts),
        Scenario("a run that is ended", ((1, 0),), (0,), faults=0, may_be_ended=True),
        "a run decides after it was ended",
    ),
    "a run is ended by an ordinary claim": BrokenRule(
        Rules(terminal=ordinary_claim_as_terminal),
        Scenario("a run that is ended", ((1, 0),), (0,), faults=0, may_be_ended=True),
        "a run decides after it was ended",
    ),
    "being fenced is taken for a takeover": BrokenRule(
        Rules(fenced_says_nothing=False), RUNS_ON_TWO_MACHINES, "exit 6, but no later run has claimed"
    ),
    "the outcomes are looked at before the fence": BrokenRule(
        Rules(steps=("look", "fence", "claim", *OWNER_STEPS[3:])),
        RUNS_ON_TWO_MACHINES,
        "exit 5 without an operator's fault",
    ),
    "logs are read to the last stable offset": BrokenRule(
        Rules(end=last_stable),
        Scenario("one run", ((1, 0),), (0,), faults=2),
        "exit 5 without an operator's fault",
    ),
    "a contradiction is believed at once": BrokenRule(
        Rules(believable=lambda *_: True), RUNS_ON_TWO_MACHINES, "exit 5 without an operator's fault"
    ),
    "a contradiction is believed before claiming": BrokenRule(
        Rules(believable=believe_before_claiming), RUNS_ON_TWO_MACHINES, "exit 5 without an operator's fault"
    ),
    "the shard is written before the commit": BrokenRule(
        Rules(applies_after_the_commit=False), ONE_RUN, "what is committed is not what the commands come to"
    ),
    "the shard is written without looking at token and positions": BrokenRule(
        Rules(shard_checks_token=False, shard_checks_positions=False),
        RUNS_ON_ONE_MACHINE,
        "an older state is written over a newer one",
    ),
    "the shard is written without looking at its token": BrokenRule(
        Rules(shard_checks_token=False),
        RUNS_ON_ONE_MACHINE,
        "somebody has written into a living owner's shard",
    ),
    "a living owner's shard is warmed": BrokenRule(
        Rules(may_warm=lambda *_: True),
        Scenario("two runs on one machine", TWO_RUNS, SAME_MACHINE, faults=0, warms=True),
        "somebody has written into a living owner's shard",
    ),
    "a living owner's shard is warmed while its claim is not visible": BrokenRule(
        Rules(may_warm=may_warm_unless_claim_is_visible),
        Scenario("two runs on one machine", TWO_RUNS, SAME_MACHINE, faults=0, warms=True, scattered=True),
        "somebody has written into a living owner's shard",
    ),
    "events are folded whatever their version": BrokenRule(
        Rules(fold_event=fold_any_version), ONE_RUN, "a shard that has seen 2 commands holds "
    ),
    "what was decided is forgotten across restarts": BrokenRule(
        Rules(remembers_across_restarts=False),
        Scenario("one run", ((1, 0),), (0,), faults=0, commands=REPEATED),
        "what is committed is not what the commands come to",
    ),
    "a refused record is ignored": BrokenRule(
        Rules(a_refused_record_stops_the_commit=False),
        Scenario("one run", ((1, 0),), (0,), faults=1),
        "a command is passed over",
    ),
    "timeouts blame the batch": BrokenRule(
        Rules(is_caused_by_batch=blames_batch_for_timeouts),
        Scenario("one run", ((1, 0),), (0,), faults=1),
        "exit 1 without an operator's fault",
    ),
}
