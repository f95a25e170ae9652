"""The mutations of assigning partitions to tasks, and of giving them up."""

from tests.mutations.table import Mutation

_TAKEOVER_TESTS = "tests/scenarios/takeovers/test_partition_takeovers.py"
_TASK_GROUP = "tests/jobs/run/test_task_group.py"

TASK_ASSIGNMENT = [
    Mutation(
        "the first takeover ends all owners of its task",
        "cqrs_cli/ownership/monitored_thread.py",
        ((" and not isinstance(self.error, TakenOverError)", ""),),
        f"{_TAKEOVER_TESTS}::test_owner_works_until_its_own_takeover",
    ),
    Mutation(
        "the first task that is taken over ends the others",
        "cqrs_cli/jobs/run.py",
        (
            (
                "other_results = [result for result in results if not isinstance(result.error, TakenOverError)]",
                "other_results = results",
            ),
        ),
        f"{_TAKEOVER_TESTS}::test_driver_fences_nothing_during_a_takeover",
    ),
    Mutation(
        "an earlier run never gives up partitions that a later run does not claim",
        "cqrs_cli/runs/takeover.py",
        (("self._clock() - self._last_claim_at > timeout", "False"),),
        f"{_TAKEOVER_TESTS}::test_earlier_run_gives_up_remaining_partitions",
    ),
    Mutation(
        "partitions move although tasks are balanced",
        "cqrs_cli/ownership/assignment.py",
        (("< 2:", "< 1:"),),
        "tests/ownership/test_assignment.py::test_rebalance_moves_few_partitions",
    ),
    Mutation(
        "new task slots are not used",
        "cqrs_cli/jobs/engine/task_group.py",
        (
            (
                "free_slots = max(0, cluster_slots.slots - len(remaining_tasks))",
                "free_slots = len(drained_tasks)",
            ),
        ),
        f"{_TASK_GROUP}::test_new_slots_get_partitions",
    ),
    Mutation(
        "a run waits for lost task slots",
        "cqrs_cli/jobs/engine/task_group.py",
        (("elif 0 < slot_count < task_count and", "elif False and"),),
        f"{_TASK_GROUP}::test_lost_slot_restarts_the_tasks",
    ),
    Mutation(
        "lost tasks wait for a poll that waits for the broker",
        "cqrs_cli/jobs/engine/watch.py",
        (("self.join(max(0.0, self._deadline - time.monotonic()))", "self.join()"),),
        "tests/jobs/run/test_driver.py::test_lost_task_restarts_without_broker",
    ),
    Mutation(
        "drained executors keep their partitions",
        "cqrs_cli/jobs/engine/task_group.py",
        (("            if cluster_slots.drained\n", "            if False\n"),),
        f"{_TASK_GROUP}::test_drained_executors_lose_their_partitions",
    ),
    Mutation(
        "a task without partitions is submitted again",
        "cqrs_cli/jobs/engine/task_group.py",
        (("            *(_Task(assignment", "            *drained_tasks,\n            *(_Task(assignment"),),
        f"{_TASK_GROUP}::test_task_without_partitions_may_end",
    ),
    Mutation(
        "a run keeps waiting for slots of drained executors",
        "cqrs_cli/jobs/engine/task_group.py",
        (
            (
                "if all_have_slots and (not slot_count or self._reassign_partitions(cluster_slots)):",
                "if self._reassign_partitions(cluster_slots) or all_have_slots:",
            ),
        ),
        f"{_TASK_GROUP}::test_drained_slot_restarts_the_tasks",
    ),
    Mutation(
        "a run reassigns partitions when all executors are drained",
        "cqrs_cli/jobs/engine/task_group.py",
        (
            ("not slot_count or ", ""),
            ("elif 0 < slot_count < task_count and", "elif slot_count < task_count and"),
        ),
        f"{_TASK_GROUP}::test_tasks_stay_if_all_slots_drain",
    ),
    Mutation(
        "partitions of a drained executor are not reassigned",
        "cqrs_cli/ownership/assignment.py",
        (
            (
                "for assignment in removed for partition in assignment",
                "for assignment in removed[1:] for partition in assignment",
            ),
        ),
        "tests/ownership/test_assignment.py::test_partitions_of_leaving_tasks_are_reassigned",
    ),
]
