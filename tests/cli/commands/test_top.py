import pytest

from tests.cli.conftest import Cqrs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "cqrs top needs a terminal; for programs and logs use: cqrs status -o json"),
        (["-o", "json"], "has no JSON output"),
        (["--every", "10ms"], "--every 10ms is too often; give 100ms or more"),
        (["--every", "often"], "--every: not a duration: 'often'"),
    ],
)
def test_a_wrong_call_ends_with_2(cqrs: Cqrs, arguments: list[str], message: str) -> None:
    result = cqrs("top", *arguments)
    assert (result.status, result.out) == (2, "")
    assert message in result.err
