from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka.embedded import ivy

FOUND = "\tfound org.slf4j#slf4j-api;1.7.36 in public"
FETCHED = ".... (192kB)\n.. (0kB)\n\t[SUCCESSFUL ] org.slf4j#slf4j-api;1.7.36!slf4j-api.jar (71ms)"
RETRIEVED = ":: retrieving :: cqrs#embedded-kafka"
OFFLINE = """
		Server access error at url https://mirror.invalid/a.pom (java.net.UnknownHostException: mirror.invalid)
		:: org.apache.kafka#kafka_2.13;4.1.0: not found
:: USE VERBOSE OR DEBUG MESSAGE LEVEL FOR MORE DETAILS"""


def java_saying(folder: Path, output: str, then: str = "") -> Path:
    """Return a fake `java -jar ivy.jar …`, which stores its arguments and prints Ivy's output."""
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho \"$@\" > {folder}/arguments\ncat <<'END'\n{output}\nEND\n{then}\n")
    java.chmod(0o755)
    return java


def fetch(java: Path, folder: Path, silence: float = ivy.SILENCE) -> list[tuple[int, int, int]]:
    counts: list[tuple[int, int, int]] = []
    target = folder / "target"
    target.mkdir()
    ivy.fetcher(java, silence=silence)(target, lambda *count: counts.append(count))
    return counts


def test_what_ivy_says_is_counted(tmp_path: Path) -> None:
    counts = fetch(java_saying(tmp_path, f"{FOUND}\n{FETCHED}\n{RETRIEVED}"), tmp_path)
    assert counts[0] == (1, 0, 0)
    assert counts[-1] == (1, 1, 192 * 1024)


def test_ivys_own_copies_are_removed(tmp_path: Path) -> None:
    fetch(java_saying(tmp_path, RETRIEVED), tmp_path)
    assert list((tmp_path / "target").iterdir()) == []


def test_offline_error_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"cannot fetch .*UnknownHost.*CQRS_IVY_SETTINGS.* -b"):
        fetch(java_saying(tmp_path, OFFLINE, "exit 1"), tmp_path)


def test_a_silent_network_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="cannot fetch"):
        fetch(java_saying(tmp_path, FOUND, "exec sleep 60"), tmp_path, silence=0.2)


def test_users_ivy_settings_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text("<ivysettings/>")
    monkeypatch.setenv("CQRS_IVY_SETTINGS", str(settings))
    fetch(java_saying(tmp_path, RETRIEVED), tmp_path)
    assert f"-settings {settings} " in (tmp_path / "arguments").read_text()


def test_missing_ivy_settings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CQRS_IVY_SETTINGS", "/no/such/file")
    with pytest.raises(ConfigurationError, match="CQRS_IVY_SETTINGS names /no/such/file"):
        fetch(java_saying(tmp_path, RETRIEVED), tmp_path)
