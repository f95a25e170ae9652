import pytest

from tests.cli.conftest import Cqrs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "missing option '--with'"),
        (["--with", "drafts.gone"], "there is no module 'drafts.gone'"),
        (["--with", "/elsewhere/code.py"], "/elsewhere/code.py is not in the project"),
        (["--with", "aggregates.counter", "--since", "2999-01-01"], "--since 2999-01-01 is in the future"),
        (
            ["--with", "aggregates.counter", "--since", "1h", "--at", "2h"],
            "--since 1h is after --at 2h",
        ),
        (["--with", "aggregates.counter", "--at", "soon"], "--at: not a time: 'soon'"),
        (["--with", "aggregates.counter", "--format", "json"], "--format needs --out"),
    ],
)
def test_a_wrong_call_ends_with_2(cqrs: Cqrs, arguments: list[str], message: str) -> None:
    result = cqrs("whatif", "bank_account", *arguments)
    assert (result.status, result.out) == (2, "")
    assert message in result.err
