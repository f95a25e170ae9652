"""The suite itself is tested: each broken rule must fail a test."""

from pathlib import Path

import pytest

from tests.mutations.deferral import DEFERRAL
from tests.mutations.details import DETAILS
from tests.mutations.erasure import ERASURE
from tests.mutations.harness import copy_repository, mutated_text, run_tests
from tests.mutations.key_verification import KEY_VERIFICATION
from tests.mutations.keys_topic import KEYS_TOPIC
from tests.mutations.ownership import OWNERSHIP
from tests.mutations.personal_data import PERSONAL_DATA
from tests.mutations.processes import PROCESSES
from tests.mutations.repartitioning import REPARTITIONING
from tests.mutations.table import RULES, Mutation
from tests.mutations.task_assignment import TASK_ASSIGNMENT
from tests.mutations.verification import VERIFICATION

#: All mutations except those in `make test-slow`.
OTHERS = [
    *DETAILS,
    *VERIFICATION,
    *PROCESSES,
    *DEFERRAL,
    *REPARTITIONING,
    *PERSONAL_DATA,
    *ERASURE,
    *KEYS_TOPIC,
    *KEY_VERIFICATION,
    *OWNERSHIP,
    *TASK_ASSIGNMENT,
]

#: The folders of tests without a broker. Other tests of these folders may need one.
_PURE = (
    "tests/core/",
    "tests/proof/",
    "tests/state/",
    "tests/codec/",
    "tests/keys/",
    "tests/keyspace/",
    "tests/model/erasing/",
    "tests/testing/",
    "tests/ownership/test_claim.py",
    "tests/ownership/poison_detection/",
    "tests/ownership/test_hang_detector.py",
    "tests/kafka/test_blame.py",
    "tests/jobs/whatif/test_personal.py",
    "tests/jobs/whatif/test_settings.py",
    "tests/cli/test_tracebacks.py",
    "tests/client/test_erasures.py",
    "tests/client/test_field_values.py",
    "tests/following/gateway/test_erasing.py",
    "tests/following/projections/test_personal.py",
    "tests/following/processes/test_compose.py",
    "tests/following/processes/test_sent_commands.py",
    "tests/following/processes/test_position.py",
    "tests/scans/erased/test_search_patterns.py",
    "tests/status/test_shards.py",
)


def cases(mutations: list[Mutation], *marks: pytest.MarkDecorator) -> list[object]:
    return [
        pytest.param(
            mutation,
            id=mutation.name,
            marks=[*marks, pytest.mark.slow]
            if mutation.noticed_by.startswith(_PURE)
            else [*marks, pytest.mark.slow, pytest.mark.kafka],
        )
        for mutation in mutations
    ]


def broker(request: pytest.FixtureRequest) -> str | None:
    """Return the address of the test run's broker, for tests that need it."""
    if request.node.get_closest_marker("kafka") is None:
        return None
    return str(request.getfixturevalue("connection").bootstrap_server)


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize(
    "mutation",
    [
        *cases(RULES),
        *cases(OTHERS, pytest.mark.nightly),
    ],
)
def test_a_broken_rule_is_noticed(mutation: Mutation, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The rules are broken one by one, and a test notices each. On a busy machine a second try is allowed."""
    root = copy_repository(tmp_path)
    (root / mutation.file).write_text(mutated_text(mutation), encoding="utf-8")
    process = run_tests(root, [mutation.noticed_by], broker(request))
    if not process.failed:
        process = run_tests(root, [mutation.noticed_by], broker(request))
    print(process.output)
    assert process.failed, f"no test failed: {mutation.name}"


@pytest.mark.parametrize("mutation", [*RULES, *OTHERS], ids=lambda mutation: mutation.name)
def test_each_detail_is_still_there(mutation: Mutation) -> None:
    assert mutated_text(mutation)


@pytest.mark.kafka
@pytest.mark.nightly
def test_unbroken_code_passes_every_test(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    tests = [mutation.noticed_by for mutation in [*RULES, *OTHERS]]
    process = run_tests(copy_repository(tmp_path), tests, broker(request))
    assert process.passed, process.output


@pytest.mark.program
def test_an_unimportable_mutation_is_not_noticed(tmp_path: Path) -> None:
    root = copy_repository(tmp_path)
    claim = root / "cqrs_cli/ownership/claim.py"
    claim.write_text("import nothing_of_that_name\n")
    assert not run_tests(root, ["tests/ownership/test_claim.py"], None).failed
    assert not run_tests(root, ["tests/ownership/test_claim.py::test_that_is_not_there"], None).failed
