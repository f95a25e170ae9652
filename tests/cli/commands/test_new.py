import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cqrs_cli import registry, scaffold
from cqrs_cli.cli.context import Call
from cqrs_cli.cli.main import main, parse
from cqrs_cli.settings.settings import load_settings


def test_new_projects_have_all_files(tmp_path: Path) -> None:
    assert main(["new", str(tmp_path / "shop")]) == 0
    files = {
        str(path.relative_to(tmp_path / "shop")) for path in (tmp_path / "shop").rglob("*") if path.is_file()
    }
    assert files == set(scaffold.FILES)


def test_bare_projects_have_an_aggregate(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["new", str(tmp_path / "shop"), "--bare", "-o", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["files"] == list(scaffold.BARE_FILES)
    assert not any("pip" in step for step in document["next"])
    assert load_settings({}, tmp_path / "shop").root == tmp_path / "shop"


def test_committed_schemas_are_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scaffold.create(tmp_path)
    monkeypatch.chdir(tmp_path)
    committed = (tmp_path / "schemas/inventory.json").read_text()
    assert main(["check", "--write", "-q"]) == 0
    assert (tmp_path / "schemas/inventory.json").read_text() == committed


def test_compose_file_has_the_services(tmp_path: Path) -> None:
    scaffold.create(tmp_path / "my_shop")
    compose = yaml.safe_load((tmp_path / "my_shop/compose.yaml").read_text())
    assert compose["name"] == "my-shop"
    for name in ("topics", "run", "gateway"):
        assert isinstance(parse(compose["services"][name]["command"]), Call)
    assert "${KAFKA_IMAGE:-apache/kafka" in compose["services"]["kafka"]["image"]


@pytest.mark.parametrize("ignore_file", [".gitignore", ".dockerignore"])
def test_secret_files_are_ignored(tmp_path: Path, ignore_file: str) -> None:
    """`cqrs keys init` and `cqrs project` write into the folder, and no image may contain keyrings or databases."""
    scaffold.create(tmp_path)
    secret = {"keys.json", ".keys.json.new", "erasures.ndjson", "projections.db*"}
    assert secret <= set((tmp_path / ignore_file).read_text().split())


@pytest.mark.program
def test_make_lists_its_targets(tmp_path: Path) -> None:
    scaffold.create(tmp_path)
    output = subprocess.check_output(["make", "-s"], cwd=tmp_path, text=True)
    targets = {line.split()[1] for line in output.splitlines()}
    assert {"setup", "test", "check", "run", "image", "up"} <= targets


def test_next_steps_are_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    main(["new", str(tmp_path / "my shop")])
    lines = [line.strip() for line in capfd.readouterr().out.splitlines()]
    assert lines[-6:] == [
        f"cd '{tmp_path}/my shop'",
        "python -m pip install -e '.[dev]'",
        "cqrs init",
        "cqrs send inventory tea Receive pieces:=10",
        "cqrs run --once",
        "cqrs show inventory tea",
    ]


def test_existing_empty_folder_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", ".", "-o", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["root"] == str(tmp_path)
    assert document["files"] == list(scaffold.FILES)


def test_title_of_readme_is_the_folder(tmp_path: Path) -> None:
    scaffold.create(tmp_path / "shop")
    assert (tmp_path / "shop" / "README.md").read_text().startswith("# shop\n")


@pytest.mark.parametrize("aggregate", [scaffold.INVENTORY, scaffold.first_aggregate("room")])
def test_commands_of_the_readme_are_valid(tmp_path: Path, aggregate: scaffold.FirstAggregate) -> None:
    scaffold.create(tmp_path, aggregate=aggregate)
    lines = re.findall(r"^    (cqrs .*)$", (tmp_path / "README.md").read_text(), re.MULTILINE)
    assert any("--not-before" in line for line in lines)
    assert any("--process" in line for line in lines) and any("--projection" in line for line in lines)
    for line in lines:
        assert isinstance(parse(shlex.split(line, comments=True)[1:]), Call), line


def test_new_aggregates_and_settings_load(tmp_path: Path) -> None:
    scaffold.create(tmp_path)
    settings = load_settings({}, tmp_path / "tests")
    assert settings.root == tmp_path
    assert list(registry.load("inventory", settings.aggregates, tmp_path).commands) == [
        "inventory.Receive",
        "inventory.Ship",
    ]


@pytest.mark.program
@pytest.mark.parametrize(("options", "test_count"), [([], 6), (["--aggregate", "room"], 3)])
def test_a_new_projects_tests_pass(tmp_path: Path, options: list[str], test_count: int) -> None:
    assert main(["new", str(tmp_path), "-q", *options]) == 0
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"], cwd=tmp_path, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stdout
    assert f"{test_count} passed" in process.stdout


def test_project_with_a_named_aggregate(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project contains nothing of the example, and all files fit the aggregate."""
    assert main(["new", str(tmp_path / "hotel"), "--aggregate", "room", "-o", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    files = {
        str(path.relative_to(tmp_path / "hotel"))
        for path in (tmp_path / "hotel").rglob("*.*")
        if path.is_file()
    }
    assert {"aggregates/room.py", "tests/test_room.py", "schemas/room.json"} <= files
    assert "cqrs send room first Register label=one" in document["next"]
    texts = [(tmp_path / "hotel" / file).read_text() for file in document["files"]]
    assert not any(word in text for text in texts for word in ("inventory", "tea "))
    monkeypatch.chdir(tmp_path / "hotel")
    assert main(["check", "-q"]) == 0


def test_invalid_aggregate_names_exit_2(tmp_path: Path) -> None:
    assert main(["new", str(tmp_path / "hotel"), "--aggregate", "Room 1"]) == 2
    assert not (tmp_path / "hotel").exists()


def test_folders_with_files_are_unchanged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").touch()
    assert main(["new", str(tmp_path)]) == 2
    assert capfd.readouterr().err == f"error: {tmp_path} is not empty; use a new folder, or an empty one\n"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_file_as_folder_exits_2(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    assert main(["new", str(tmp_path / "notes.txt")]) == 2


@pytest.mark.parametrize("folder", ["/proc/shop", "/dev/null/shop"])
def test_unwritable_folders_exit_3(folder: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["new", folder]) == 3
    assert capfd.readouterr().err.startswith("error: cannot write /")
