import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregates import bank_account
from cqrs_cli import registry
from cqrs_cli.errors import ConfigurationError, UsageError
from tests.support import ROOT

DOOR = textwrap.dedent("""\
    import cqrs_cli as cqrs

    class Open(cqrs.Command):
        pass
    class Opened(cqrs.Event):
        pass
    class Door(cqrs.State):
        open: bool = False

    def decide(command: Open, door: Door):
        return ()
    def evolve(door: Door, event: Opened) -> Door:
        return door

    decider = cqrs.Decider(decide, evolve, initial=Door())
""")
Project = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A function that writes modules into the package `aggregates` of a folder, and returns the folder."""

    def write(package: str = "aggregates", **modules: str) -> Path:
        folder = tmp_path / package
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in modules.items():
            (folder / f"{name}.py").write_text(source)
        return tmp_path

    return write


def test_modules_name_their_aggregates(project: Project) -> None:
    root = project(door=DOOR)
    assert list(registry.load("door", "aggregates", root).commands) == ["door.Open"]


def test_listing_runs_no_aggregate(project: Project) -> None:
    root = project(__init__="", _shared="", b="1/0", a="syntax error", __main__="")
    assert registry.names("aggregates", root) == ["a", "b"]


def test_folder_without_init_is_a_package(project: Project) -> None:
    root = project(door=DOOR, window="from aggregates.door import *")
    assert registry.load("window", "aggregates", root).name == "window"


def test_modules_of_the_working_directory_are_imported() -> None:
    assert registry.load("bank_account", "aggregates", ROOT).decider is bank_account.decider


def test_packages_of_two_projects_are_separate(project: Project) -> None:
    assert registry.names("aggregates", project("elsewhere")) == []
    root = project(door=DOOR)
    assert registry.load("door", "aggregates", root).name == "door"
    assert "bank_account" in registry.names("aggregates", ROOT)
    assert registry.load("door", "aggregates", root).name == "door"


def test_a_package_within_packages_is_found(project: Project) -> None:
    root = project("shop/domain", door=DOOR)
    assert registry.names("shop.domain", root) == ["door"]
    assert registry.load("door", "shop.domain", root).name == "door"


def test_new_file_is_found_at_once(project: Project) -> None:
    root = project(door=DOOR)
    registry.names("aggregates", root)
    assert registry.names("aggregates", project(gate=DOOR)) == ["door", "gate"]


def test_unknown_aggregate_names_known_ones(project: Project) -> None:
    root = project(door=DOOR, gate=DOOR)
    with pytest.raises(UsageError) as failure:
        registry.load("doors", "aggregates", root)
    assert str(failure.value) == "no aggregate 'doors'; did you mean door? known: door, gate"


def test_empty_project_suggests_cqrs_new(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no package 'aggregates' .*cqrs new"):
        registry.load("door", "aggregates", tmp_path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\ndef f(:\n", "aggregates/door.py:2: SyntaxError: invalid syntax"),
        (
            "import cqrs_cli as cqrs\nclass Door(cqrs.State):\n    keys: list[int] = [1]\n",
            "aggregates/door.py:2: TypeError: Using a non-empty mutable collection ([1]) as a default value is"
            " unsafe. Write `cqrs.field(default_factory=…)`, so that each",
        ),
        ("x = 1\n1/0\n", "aggregates/door.py:2: ZeroDivisionError: division by zero"),
        (
            "import no_such_module\n",
            "aggregates/door.py:1: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("def f():\n    raise OSError\nf()", "aggregates/door.py:2: OSError"),
        ("raise ValueError('two\\nlines')", "aggregates/door.py:1: ValueError: two lines"),
        ("raise SystemExit(3)", "aggregates/door.py:1: SystemExit: 3"),
        ("x = 1", "aggregates/door.py defines no decider"),
        ("decider = 1", "aggregates/door.py defines no decider"),
        (DOOR.replace("command: Open", "command"), "aggregates/door.py:10: decide: annotate 'command'"),
        (DOOR.replace("event: Opened", "event: Door"), "aggregates/door.py:12: evolve: annotate 'event'"),
        (
            DOOR.replace("open: bool", "open: complex"),
            "aggregates/door.py:7: Door.open has no form in JSON: complex",
        ),
        (
            DOOR.replace(": bool = False", ": bool"),
            "aggregates/door.py:15: TypeError: the field 'open' has no default and no value",
        ),
    ],
)
def test_broken_code_names_its_line(project: Project, source: str, message: str) -> None:
    root = project(door=source)
    with pytest.raises(ConfigurationError) as failure:
        registry.load("door", "aggregates", root)
    assert failure.value.message.startswith(message)
    assert "\n" not in str(failure.value)


def test_personal_annotations_are_loaded(project: Project) -> None:
    source = DOOR.replace("open: bool = False", "keeper: Personal[str] = ''")
    root = project(door=f"from cqrs_cli.core.personal.personal_fields import Personal\n{source}")
    assert registry.load("door", "aggregates", root).has_personal_fields


def test_corrected_code_is_loaded(project: Project) -> None:
    root = project(door="1/0")
    with pytest.raises(ConfigurationError):
        registry.load("door", "aggregates", root)
    assert registry.load("door", "aggregates", project(door=DOOR)).name == "door"


def test_a_broken_package_is_named_too(project: Project) -> None:
    root = project(__init__="1/0", door=DOOR)
    with pytest.raises(ConfigurationError, match=r"aggregates/__init__.py:1: ZeroDivisionError"):
        registry.names("aggregates", root)


@pytest.mark.parametrize("name", ["tür", "a b", "x" * 201])
def test_invalid_topic_names_are_refused(project: Project, name: str) -> None:
    root = project(**{name: DOOR})
    with pytest.raises(ConfigurationError, match="cannot be part of a topic's name"):
        registry.load(name, "aggregates", root)


def test_archive_replaces_the_folder(project: Project, tmp_path: Path) -> None:
    root = project(door=DOOR, _shared="", notes="")
    (root / "aggregates" / "data.txt").write_text("not shipped")
    archive = registry.source_archive("aggregates", root, tmp_path / "code.zip")
    from_folder, from_archive = (registry.load("door", "aggregates", path) for path in (root, archive))
    assert from_folder.decider.decide.__code__.co_filename != from_archive.decider.decide.__code__.co_filename
    assert (from_folder.fold_digest, from_folder.schema_digest) == (
        from_archive.fold_digest,
        from_archive.schema_digest,
    )
    assert from_folder.fold_digest


def test_broken_code_in_archive_is_named(project: Project, tmp_path: Path) -> None:
    archive = registry.source_archive("aggregates", project(door="x = 1\n1/0"), tmp_path / "code.zip")
    with pytest.raises(ConfigurationError, match=r"aggregates/door.py:2: ZeroDivisionError"):
        registry.load("door", "aggregates", archive)


def test_same_sources_make_same_archive(project: Project, tmp_path: Path) -> None:
    root = project("shop/domain", door=DOOR)
    first, second = (
        registry.source_archive("shop.domain", root, tmp_path / name) for name in ("one.zip", "two.zip")
    )
    assert first.read_bytes() == second.read_bytes()
    assert registry.names("shop.domain", first) == ["door"]


@pytest.mark.program
def test_worker_imports_from_an_archive(project: Project, tmp_path: Path) -> None:
    archive = registry.source_archive("shop.domain", project("shop/domain", door=DOOR), tmp_path / "code.zip")
    program = (
        f"import sys; sys.path.insert(1, {str(archive)!r}); import shop.domain.door as d; print(d.__file__)"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == f"{archive}/shop/domain/door.py"


class _ImportingName(str):
    """The name of a module. To compare it imports another module, as another thread may at any time."""

    def startswith(self, *_: object) -> bool:
        sys.modules["imported_meanwhile"] = sys
        return False


def test_modules_may_be_imported_meanwhile(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, _ImportingName("compared"), sys)
    assert registry.load("door", "aggregates", project(door=DOOR)).name == "door"
    del sys.modules["imported_meanwhile"]
