"""Only code of the configured aggregates package runs, and nothing from a topic or a shard is unpickled."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.damage import pickle_that_creates
from tests.support import AGGREGATES, ROOT

PACKAGE = ROOT / "cqrs_cli"

#: Modules and calls that turn data into code or objects.
UNSAFE_MODULES = {
    "pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "yaml",
    "ctypes",
    "runpy",
    "code",
    "codeop",
    "imp",
}
UNSAFE_CALLS = {
    *(
        "eval",
        "exec",
        "compile",
        "__import__",
        "import_module",
        "exec_module",
        "module_from_spec",
        "load_module",
    ),
    *("system", "popen", "unpickle", "loads_pickle", "resolve_name", "execfile"),
}

#: The modules that load code, with the reason why each is safe. Aggregates, projections, the commands of `cqrs`, its
#: public names and a test's own aggregate are loaded by configured names. `re.compile` and SQLAlchemy's `compile` of a
#: table to SQL compile no code; `resolve_name` of importlib.util makes a relative name absolute. A task's child reads
#: requests of its own parent on stdin; from a store it reads JSON and LMDB files. `ctypes` calls one glibc function.
#: The function that `eval` makes contains only names of attributes, which are constants.
ALLOWED = {
    ("system/memory.py", "ctypes"),
    ("__init__.py", "import_module"),
    ("following/projections/definition.py", "compile"),
    ("core/messages/attributes.py", "eval"),
    ("registry.py", "import_module"),
    ("registry.py", "module_from_spec"),
    ("registry.py", "exec_module"),
    ("cli/main.py", "import_module"),
    ("testing/hash_seed.py", "import_module"),
    ("core/aggregate/code_digest.py", "resolve_name"),
    ("deciding/checkpoints/child_process.py", "pickle"),
}


def unsafe_names(path: Path) -> Iterator[str]:
    """Yield the names in a file that could turn data into code."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            yield from ({name.partition(".")[0] for name in modules} & UNSAFE_MODULES)
            yield from ({alias.name for alias in node.names} & UNSAFE_CALLS)
        elif isinstance(node, ast.Name) and node.id in UNSAFE_CALLS:
            yield node.id
        elif isinstance(node, ast.Attribute) and node.attr in UNSAFE_CALLS:
            if not (node.attr == "compile" and isinstance(node.value, ast.Name) and node.value.id == "re"):
                yield node.attr
        elif isinstance(node, ast.keyword) and node.arg in ("shell", "allow_pickle"):
            yield node.arg


@pytest.mark.covers("no-foreign-code")
def test_package_never_executes_data() -> None:
    findings = {
        (str(path.relative_to(PACKAGE)), name)
        for path in PACKAGE.rglob("*.py")
        for name in unsafe_names(path)
    }
    assert findings == ALLOWED


@pytest.mark.program
@pytest.mark.covers("no-foreign-code")
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_pickles_on_disk_stay_data(tmp_path: Path, protocol: int) -> None:
    """Python's audit hook shows that no pickle in records or shards is loaded."""
    created_file = tmp_path / "went-off"
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.audited_program",
        str(tmp_path),
        pickle_that_creates(created_file, protocol),
    ]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) == []
    assert not created_file.exists()


@pytest.mark.program
def test_unpickling_the_file_runs_its_code(tmp_path: Path) -> None:
    encoded = pickle_that_creates(tmp_path / "went-off", 2)
    program = f"import base64, pickle; pickle.loads(base64.b64decode({encoded!r}))"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert (tmp_path / "went-off").exists()


@pytest.mark.program
def test_local_modules_never_shadow_the_library(tmp_path: Path) -> None:
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").mkdir()
    (tmp_path / "aggregates" / "counter.py").write_text((AGGREGATES / "counter.py").read_text())
    for name in ("json", "queue", "tomllib", "msgspec", "typer", "kafka", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'went-off')!r}, 'w')")
    command = [str(Path(sys.executable).with_name("cqrs")), "doctor", "-o", "json"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    aggregates = [
        check["detail"] for check in json.loads(process.stdout)["checks"] if check["name"] == "aggregates"
    ]
    assert aggregates == ["counter"]
    assert not (tmp_path / "went-off").exists()
