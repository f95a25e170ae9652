"""The rules of the model, each broken on its own, with the smallest scenario in which a promise is then broken."""

from typing import NamedTuple

from confluent_kafka import KafkaError
from msgspec.structs import replace as replace_fields

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import VersionedState, fold_next
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.deciding.position import LogState, position
from cqrs_cli.kafka.write_errors import is_caused_by_batch
from cqrs_cli.ownership.claim import Claim, Judgement, judge, terminal_claim
from tests.model.broker import last_stable
from tests.model.deciding import REPEATED
from tests.model.rules import OWNER_STEPS, Rules
from tests.model.world import Scenario


class BrokenRule(NamedTuple):
    """A broken rule: the rules, a scenario, and the beginning of the promise that the scenario then breaks."""

    rules: Rules
    scenario: Scenario
    broken_promise: str


def judge_by_progress(own_claim: Claim, committed_claim: Claim | None) -> Judgement:
    if committed_claim is None or committed_claim.number < own_claim.number:
        return Judgement.EARLIER
    return Judgement.OWN if committed_claim.number == own_claim.number else Judgement.LATER_RUN


def judge_without_attempts(own_claim: Claim, committed_claim: Claim | None) -> Judgement:
    judgement = judge(own_claim, committed_claim)
    return Judgement.OWN if judgement is Judgement.LATER_ATTEMPT else judgement


def real_before_claiming(own_claim: Claim, claimed: bool, committed_claim: Claim | None) -> bool:
    return not claimed or judge(own_claim, committed_claim) is Judgement.OWN


def idle_unless_claim_is_visible(token: str, committed_claim: Claim | None) -> bool:
    return committed_claim is None or committed_claim.token != token


def fold_any_version(
    aggregate: Aggregate, before: VersionedState | None, event: EventEnvelope
) -> VersionedState:
    version, state = (before.version, before.state) if before else (0, aggregate.decider.initial)
    _, offset, index = event.position()
    after = fold_next(aggregate, event.aggregateversion - 1, state, event)
    return VersionedState(version + 1, after, offset, index, event.time)


def timeouts_are_caused_by_batch(error: KafkaError) -> bool:
    return is_caused_by_batch(error) or error.code() == KafkaError._TIMED_OUT


def ordinary_claim_as_terminal(committed_claim: Claim | None, run: str) -> Claim | None:
    terminal = terminal_claim(committed_claim, run)
    if terminal is None or committed_claim is None:
        return None
    return replace_fields(committed_claim, number=terminal.number)


def position_without_events(log: LogState) -> int:
    return position(log if log.last_outcome_command is not None else log._replace(last_event_command=None))


TWO_RUNS = ((1, 0), (2, 0))
SAME_MACHINE, TWO_MACHINES = (0, 0), (0, 1)
ONE_RUN = Scenario("one run", ((1, 0),), (0,), faults=0)
RUNS_ON_ONE_MACHINE = Scenario("two runs on one machine", TWO_RUNS, SAME_MACHINE, faults=0)
RUNS_ON_TWO_MACHINES = Scenario("two runs on two machines", TWO_RUNS, TWO_MACHINES, faults=0)

BROKEN_RULES = {
    "claims are judged by their number of decided commands": BrokenRule(
        Rules(judge=judge_by_progress), RUNS_ON_TWO_MACHINES, "exit 6, but no later run has claimed"
    ),
    "an earlier attempt takes the claim of the later attempt for its own": BrokenRule(
        Rules(judge=judge_without_attempts),
        Scenario("a run that is retired", ((1, 0),), (0,), faults=0, may_be_retired=True),
        "a run decides after it was retired",
    ),
    "a run is retired with an ordinary claim": BrokenRule(
        Rules(terminal=ordinary_claim_as_terminal),
        Scenario("a run that is retired", ((1, 0),), (0,), faults=0, may_be_retired=True),
        "a run decides after it was retired",
    ),
    "a fence counts as a takeover": BrokenRule(
        Rules(fence_is_no_takeover=False), RUNS_ON_TWO_MACHINES, "exit 6, but no later run has claimed"
    ),
    "the end of the outcomes is read before the fence": BrokenRule(
        Rules(steps=("outcomes_end", "fence", "claim", *OWNER_STEPS[3:])),
        RUNS_ON_TWO_MACHINES,
        "exit 5, but no operator has acted",
    ),
    "logs are read only to the last stable offset": BrokenRule(
        Rules(read_end=last_stable),
        Scenario("one run", ((1, 0),), (0,), faults=2),
        "exit 5, but no operator has acted",
    ),
    "an inconsistency is always accepted as real": BrokenRule(
        Rules(is_inconsistency_real=lambda *_: True),
        RUNS_ON_TWO_MACHINES,
        "exit 5, but no operator has acted",
    ),
    "an inconsistency is accepted as real before the claim": BrokenRule(
        Rules(is_inconsistency_real=real_before_claiming),
        RUNS_ON_TWO_MACHINES,
        "exit 5, but no operator has acted",
    ),
    "the shard is written before the commit": BrokenRule(
        Rules(applies_after_commit=False),
        ONE_RUN,
        "the committed log is not a prefix of the sequential result",
    ),
    "the shard is written without a check of token and positions": BrokenRule(
        Rules(shard_checks_token=False, shard_checks_positions=False),
        RUNS_ON_ONE_MACHINE,
        "an older state overwrites a newer state",
    ),
    "the shard is written without a check of its token": BrokenRule(
        Rules(shard_checks_token=False),
        RUNS_ON_ONE_MACHINE,
        "another owner has written into the shard of a living owner",
    ),
    "the shard of a living owner is folded": BrokenRule(
        Rules(is_shard_idle=lambda *_: True),
        Scenario("two runs on one machine", TWO_RUNS, SAME_MACHINE, faults=0, warms=True),
        "another owner has written into the shard of a living owner",
    ),
    "the shard of a living owner is folded while its claim is not visible": BrokenRule(
        Rules(is_shard_idle=idle_unless_claim_is_visible),
        Scenario("two runs on one machine", TWO_RUNS, SAME_MACHINE, faults=0, warms=True, late_markers=True),
        "another owner has written into the shard of a living owner",
    ),
    "events of any version are folded": BrokenRule(
        Rules(fold_event=fold_any_version), ONE_RUN, "a shard with 2 commands has the state "
    ),
    "a restart forgets the remembered ids": BrokenRule(
        Rules(remembers_across_restarts=False),
        Scenario("one run", ((1, 0),), (0,), faults=0, commands=REPEATED),
        "the committed log is not a prefix of the sequential result",
    ),
    "a failed record does not prevent the commit": BrokenRule(
        Rules(failed_record_prevents_commit=False),
        Scenario("one run", ((1, 0),), (0,), faults=1),
        "a command is skipped",
    ),
    "a claim is committed with the group's offset, which is older than the last outcome": BrokenRule(
        Rules(claims_first_undecided=False),
        Scenario("one run that omits positions", ((1, 0),), (0,), faults=0, omits_positions=True),
        "exit 5, but no operator has acted",
    ),
    "a position behind deleted outcomes ignores the events": BrokenRule(
        Rules(position=position_without_events),
        Scenario(
            "one run that omits positions, and its outcomes are deleted",
            ((1, 0),),
            (0,),
            faults=2,
            omits_positions=True,
            deletes_outcomes=True,
        ),
        "the committed log is not a prefix of the sequential result",
    ),
    "a timeout counts as caused by the batch": BrokenRule(
        Rules(is_caused_by_batch=timeouts_are_caused_by_batch),
        Scenario("one run", ((1, 0),), (0,), faults=1),
        "exit 1, but no operator has acted",
    ),
}
