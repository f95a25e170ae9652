"""The mutations of how a run gives its partitions to tasks, and gives them up."""

from tests.mutations.table import Mutation

_PLACES = "tests/scenarios/takeovers/test_places.py"
_CREW = "tests/jobs/run/test_crew.py"

PLACING = [
    Mutation(
        "the first takeover ends all owners of its task",
        "cqrs_cli/ownership/watched.py",
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
        "cqrs_cli/ownership/dealing.py",
        (("< 2:", "< 1:"),),
        "tests/ownership/test_dealing.py::test_as_few_move_as_make_all_even",
    ),
    Mutation(
        "slots that join are not used",
        "cqrs_cli/jobs/engine/crew.py",
        (("if slots > tasks and self._work.movable:", "if False:"),),
        f"{_CREW}::test_slots_that_join_get_places",
    ),
    Mutation(
        "a run waits for slots that are gone",
        "cqrs_cli/jobs/engine/crew.py",
        (("elif 0 < slots < tasks and", "elif False and"),),
        f"{_CREW}::test_without_lost_slots_it_begins_anew",
    ),
]
