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
        (
            ["--with", "aggregates.counter", "--fail-on", "acepted->rejected>0"],
            "--fail-on: 'acepted' is not a result of commands; write --fail-on RESULT->RESULT>N or KIND>N",
        ),
        (["--with", "aggregates.counter", "--at", "@gone.json"], "--at: cannot read gone.json"),
        (["--with", "aggregates.counter", "-o", "csv"], "'csv' is not one of 'text', 'json', 'github'"),
    ],
)
def test_a_wrong_call_ends_with_2(cqrs: Cqrs, arguments: list[str], message: str) -> None:
    result = cqrs("whatif", "bank_account", *arguments)
    assert (result.status, result.out) == (2, "")
    assert message in result.err
