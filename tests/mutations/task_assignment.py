"""The mutations of assigning partitions to tasks, and of giving them up."""

from tests.mutations.table import Mutation

_PLACES = "tests/scenarios/takeovers/test_partition_takeovers.py"
_CREW = "tests/jobs/run/test_task_group.py"

PLACING = [
    Mutation(
        "the first takeover ends all owners of its task",
        "cqrs_cli/ownership/monitored_thread.py",
        ((" and not isinstance(self.error, TakenOverError)", ""),),
        f"{_PLACES}::test_owner_works_until_its_own_takeover",
    ),
    Mutation(
        "the first task that is taken over ends the others",
        "cqrs_cli/jobs/run.py",
        (
            (
                "others = [one for one in results if not isinstance(one.error, TakenOverError)]",
                "others = results",
            ),
        ),
        f"{_PLACES}::test_driver_fences_nothing_meanwhile",
    ),
    Mutation(
        "what a later run leaves is kept for ever",
        "cqrs_cli/runs/takeover.py",
        (("self._clock() - self._since > after", "False"),),
        f"{_PLACES}::test_rest_is_not_kept_for_ever",
    ),
    Mutation(
        "places move though all are even",
        "cqrs_cli/ownership/assignment.py",
        (("< 2:", "< 1:"),),
        "tests/ownership/test_assignment.py::test_as_few_move_as_make_all_even",
    ),
    Mutation(
        "slots that join are not used",
        "cqrs_cli/jobs/engine/task_group.py",
        (("more = max(0, found.slots - len(staying))", "more = len(leaving)"),),
        f"{_CREW}::test_slots_that_join_get_places",
    ),
    Mutation(
        "a run waits for slots that are gone",
        "cqrs_cli/jobs/engine/task_group.py",
        (("elif 0 < slots < tasks and", "elif False and"),),
        f"{_CREW}::test_without_lost_slots_it_begins_anew",
    ),
    Mutation(
        "lost tasks wait for a look that waits for a broker",
        "cqrs_cli/jobs/engine/watch.py",
        (("self.join(max(0.0, self._due - time.monotonic()))", "self.join()"),),
        "tests/jobs/run/test_driver.py::test_lost_task_waits_for_no_look",
    ),
    Mutation(
        "drained executors keep what they own",
        "cqrs_cli/jobs/engine/task_group.py",
        ((" if found.drained else []", " if False else []"),),
        f"{_CREW}::test_drained_executors_give_all_away",
    ),
    Mutation(
        "a task that has given all away is submitted again",
        "cqrs_cli/jobs/engine/task_group.py",
        (("self._members = [*staying, *", "self._members = [*staying, *leaving, *"),),
        f"{_CREW}::test_task_that_left_is_not_missed",
    ),
    Mutation(
        "a run waits for slots where executors are drained",
        "cqrs_cli/jobs/engine/task_group.py",
        (("if all_run and (not slots or self._move(found)):", "if self._move(found) or all_run:"),),
        f"{_CREW}::test_without_drained_slots_it_begins_anew",
    ),
    Mutation(
        "a run ends where all executors are drained",
        "cqrs_cli/jobs/engine/task_group.py",
        (("not slots or ", ""), ("elif 0 < slots < tasks and", "elif slots < tasks and")),
        f"{_CREW}::test_tasks_stay_if_all_is_drained",
    ),
    Mutation(
        "what leaves a drained executor is lost",
        "cqrs_cli/ownership/assignment.py",
        (("for share in leaving for place in share", "for share in leaving[1:] for place in share"),),
        "tests/ownership/test_assignment.py::test_all_that_leaves_is_taken",
    ),
]
