"""A uid without an account: Spark needs its name, and the cache needs its home folder."""

import pwd
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.jobs.engine.session import session
from cqrs_cli.system.account import require_host
from cqrs_cli.system.cache import user_cache


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    def getpwuid(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", getpwuid)
    for name in ("HOME", "XDG_CACHE_HOME", "CQRS_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_spark_names_the_missing_account(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match="no entry in /etc/passwd"),
        session("local", {}, tmp_path, "x"),
    ):
        pass


def test_unknown_host_is_named() -> None:
    with pytest.raises(ConfigurationError, match="does not know the host nowhere"):
        require_host("nowhere.invalid")


def test_cache_without_a_home_is_explained() -> None:
    with pytest.raises(ConfigurationError, match="set HOME or CQRS_CACHE_DIR"):
        user_cache()
