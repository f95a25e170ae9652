"""Calls that `cqrs run` refuses before it connects."""

import pytest

from tests.cli.conftest import Cqrs


@pytest.mark.parametrize("flag", ["--once", "--reload"])
def test_standby_excludes_once_and_reload(cqrs: Cqrs, flag: str) -> None:
    result = cqrs("run", "--standby", flag)
    assert result.status == 2 and f"--standby does not go with {flag}" in result.err
