"""A run that was taken over: by whom, of what, and how to go on for what the later run left."""

import time

from cqrs_cli.deciding.plan import Plan
from cqrs_cli.errors import CqrsError, TakenOverError
from cqrs_cli.following.processes.plan import ProcessPlan
from cqrs_cli.ownership.standing import Standing, standings


def explain_takeovers(plan: Plan, processes: ProcessPlan | None, error: TakenOverError) -> TakenOverError:
    """The same error; if a later run took only a part, it names that, and the way on for the rest."""
    deadline = time.monotonic() + plan.timing.all_claimed
    aggregates, reacting = _taken(plan, processes)
    every = [] if processes is None else processes.processes()
    while len(aggregates) + len(reacting) < len(plan.topics) + len(every) and time.monotonic() < deadline:
        time.sleep(0.1)
        aggregates, reacting = _taken(plan, processes)
    left = sorted(set(plan.topics) - set(aggregates)), sorted(set(every) - set(reacting))
    if not (aggregates or reacting) or not any(left):
        return error
    run = next(iter({**aggregates, **reacting}.values()))
    taken = ", ".join([*aggregates, *(f"process {name}" for name in reacting)])
    rest = [f"nobody decides for {', '.join(left[0])} now"] if left[0] else []
    rest += [f"nobody runs process {', '.join(left[1])} now"] if left[1] else []
    return TakenOverError(
        f"run {run} took over {taken}; {', '.join(rest)}",
        f"let it work, and go on for what it left: {_way_on(*left)}",
    )


def _way_on(aggregates: list[str], processes: list[str]) -> str:
    if not aggregates:
        return f"cqrs process {' '.join(processes)}"
    return " ".join(["cqrs run", *aggregates, *(f"--process {name}" for name in processes)])


def _taken(plan: Plan, processes: ProcessPlan | None) -> tuple[dict[str, str], dict[str, str]]:
    """The aggregates and the processes of which a later run has claimed a partition, and that run."""
    aggregates, reacting = dict[str, str](), dict[str, str]()
    try:
        for at, one in sorted(standings(plan.connection, plan.seats()).items()):
            if (run := _later(one, plan.run_epoch, plan.run)) is not None:
                aggregates[at.aggregate] = run
        heard = standings(processes.connection, processes.seats()) if processes else {}
        for subscription, one in sorted(heard.items()):
            if processes and (run := _later(one, processes.run_epoch, processes.run)) is not None:
                reacting[subscription.process] = run
    except CqrsError:
        pass  # what has been found is true
    return aggregates, reacting


def _later(one: Standing, run_epoch: int, run: str) -> str | None:
    claim = one.claim
    return claim.run if claim is not None and (claim.run_epoch, claim.run) > (run_epoch, run) else None
