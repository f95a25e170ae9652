"""The rules of the layout: allowed imports, modules that load nothing heavy, and public names."""

import ast
import pkgutil
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import cqrs_cli
import cqrs_cli.core
import cqrs_cli.proof
import cqrs_cli.testing
from tests.support import ROOT, limits

PACKAGE = ROOT / "cqrs_cli"
HEAVY = {
    "pyspark",
    "confluent_kafka",
    "cryptography",
    "kafka",
    "lmdb",
    "typer",
    "pandas",
    "pyarrow",
    "numpy",
    "sqlalchemy",
    "starlette",
    "uvicorn",
    "pydantic",
    "hypothesis",
}

#: Modules that every module may import: values and errors without further imports of the package.
BASE_MODULES = {"column", "errors", "extras", "version", "failpoints", "formatting", "observer"}

#: Further imports that the modules of each part may use. A part is a folder or a file of `cqrs_cli`.
_LOW = {"codec", "core", "keys", "payloads", "settings", "system"}
_MIDDLE = _LOW | {"state", "storage", "kafka", "keyspace", "registry", "proof", "telemetry"}
_OWNING = _MIDDLE | {"ownership", "deciding"}
_UPPER = _OWNING | {"client", "following", "scans", "status", "runs", "doctor", "jobs"}
MAY_IMPORT: dict[str, set[str]] = {
    **{module: set() for module in BASE_MODULES},
    "core": set(),
    "codec": {"core", "keys", "payloads"},
    "payloads": {"core", "storage"},
    "scaffold": set(),
    "storage": set(),
    "testing": {"core", "following"},  # the class of a projection, and its event types
    "system": {"core"},
    "settings": {"core", "keys", "system", "storage", "payloads"},
    "registry": {"core", "settings", "system"},
    "state": _LOW | {"storage"},
    "keys": {"core", "storage"},
    "kafka": _LOW | {"storage"},
    "keyspace": {"core", "kafka"},
    "telemetry": {"core"},
    "proof": _MIDDLE,
    "ownership": _MIDDLE - {"registry", "proof"},
    "deciding": _MIDDLE | {"ownership"},
    "client": _MIDDLE | {"ownership"},
    "following": _OWNING | {"client"},
    "projections": {"following"},  # the name that users import
    "scans": _OWNING | {"client"},
    "doctor": _MIDDLE | {"ownership"},
    "spark": _MIDDLE | {"client", "ownership"},
    "status": _OWNING | {"client", "following"},
    "runs": _OWNING | {"client", "following", "status"},
    "jobs": _UPPER | {"spark"},
    "demo": _UPPER,
    "console": {*_OWNING, "client", "following", "status"},
    "cli": {*_UPPER, "console", "demo", "scaffold", "testing", "projections"},
    "__main__": {"cli"},
}
FUNCTIONAL = (cqrs_cli.core, cqrs_cli.proof)  # packages of pure functions
_CONNECTION = "cqrs_cli.kafka.connection.connection"
CORE = sorted(
    f"{package.__name__}.{module.name}"
    for package in FUNCTIONAL
    for module in pkgutil.iter_modules(package.__path__)
)
PURE_MODULES = [
    "cqrs_cli",
    "cqrs_cli.errors",
    "cqrs_cli.keyspace.key_history",
    "cqrs_cli.registry",
    "cqrs_cli.testing",
    *CORE,
]


def imported_names(path: Path) -> Iterator[str]:
    """Yield every module that a file imports, at any place in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_parts(path: Path) -> set[str]:
    """Return the parts of `cqrs_cli` that a file imports."""
    names = (name.split(".") for name in imported_names(path))
    folders_or_files = {name[1] for name in names if name[0] == "cqrs_cli" and len(name) > 1}
    return {
        part for part in folders_or_files if (PACKAGE / part).is_dir() or (PACKAGE / f"{part}.py").is_file()
    }


def files_of(part: str) -> list[Path]:
    return (
        [PACKAGE / f"{part}.py"]
        if (PACKAGE / f"{part}.py").exists()
        else sorted((PACKAGE / part).rglob("*.py"))
    )


def test_every_part_has_its_rule() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert parts - {"__init__", "__pycache__", "py"} == set(MAY_IMPORT)


@pytest.mark.parametrize("part", sorted(MAY_IMPORT))
def test_imports_point_in_one_direction(part: str) -> None:
    forbidden = {
        str(path.relative_to(ROOT)): imported_parts(path) - MAY_IMPORT[part] - BASE_MODULES - {part}
        for path in files_of(part)
    }
    assert {path: names for path, names in forbidden.items() if names} == {}


def test_readers_cannot_fetch_payloads() -> None:
    """All code that uses Kafka takes a cluster, and only a connection knows the payload store."""
    with_connection = {
        path.name for path in files_of("kafka") if f"{_CONNECTION}.Connection" in set(imported_names(path))
    }
    assert with_connection == set()


def test_few_files_know_personal_data() -> None:
    """Other files ask the codec, or the personal schema of the aggregate."""
    rooms = (PACKAGE / "core" / "personal", PACKAGE / "keys", PACKAGE / "codec")
    own_commands = {PACKAGE / "cli" / "commands" / "keys.py", PACKAGE / "cli" / "render" / "keys.py"}
    others = [path for path in PACKAGE.rglob("*.py") if not any(map(path.is_relative_to, rooms))]
    knowing = {
        path
        for path in others
        if any(name.startswith(("cqrs_cli.core.personal", "cqrs_cli.keys.")) for name in imported_names(path))
    }
    assert len(knowing - own_commands) <= 15


def test_few_files_know_the_key_space() -> None:
    """Other files get a key space from a plan, a session or a parameter, and its type is inferred."""
    room = PACKAGE / "keyspace"
    others = [path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(room)]
    knowing = {path for path in others if "keyspace" in imported_parts(path)}
    assert len(knowing) <= 15


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def import_cycle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the first cycle of a graph of imports, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def imported_modules(path: Path) -> set[str]:
    """Return the modules of this package that a file imports; a package only if none of its modules is imported."""
    modules = set(imported_names(path)) & MODULES.keys()
    return {name for name in modules if not any(module.startswith(f"{name}.") for module in modules)}


def test_files_have_no_import_cycle() -> None:
    assert import_cycle({name: imported_modules(path) - {name} for name, path in MODULES.items()}) == []


def test_folders_have_no_import_cycle() -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for path in MODULES.values():
        folders = {MODULES[name].parent for name in imported_modules(path)} - {path.parent, PACKAGE}
        if path.parent != PACKAGE:
            graph[str(path.parent.relative_to(ROOT))] |= {str(folder.relative_to(ROOT)) for folder in folders}
    assert import_cycle(graph) == []


#: Files of more than 300 lines, each with the reason why it is one file.
LONG_FILES: dict[str, str] = {
    "cqrs_cli/kafka/admin/topics.py": "the admin client, and the questions that only it answers",
}


def test_long_files_have_a_reason() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in MODULES.values()}
    limits.warn("300 lines", (path for path, count in lines.items() if count > 300), LONG_FILES)
    assert statistics.quantiles(lines.values(), n=10)[-1] <= 220


#: The modules of the partition history. All other files ask the key space.
HISTORY_MODULES = {
    f"cqrs_cli.keyspace.{name}" for name in ("lineage", "lineage_log", "records", "added_partitions")
}

#: The files that write or fold splits, or verify them.
SPLIT_FILES = {
    "cqrs_cli/deciding/inherit.py",
    "cqrs_cli/deciding/repartition.py",
    "cqrs_cli/proof/parent_verification.py",
    "cqrs_cli/scans/verify/parents.py",
}


def test_few_files_know_the_partition_history() -> None:
    knowing = {
        str(path.relative_to(ROOT))
        for path in MODULES.values()
        if path.parent != PACKAGE / "keyspace" and imported_modules(path) & HISTORY_MODULES
    }
    assert knowing == SPLIT_FILES


def test_every_file_in_jobs_imports_spark() -> None:
    """Code without Spark belongs into other parts: `scans`, `runs`, `status`."""
    names_spark = {
        path: any(name.startswith("pyspark") for name in imported_names(path)) for path in files_of("jobs")
    }
    assert [
        str(path) for path, names in names_spark.items() if not names and path.name != "__init__.py"
    ] == []


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of a function's lines without its signature and docstring."""
    body = function.body[1 if ast.get_docstring(function) is not None else 0 :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_functions_stay_small() -> None:
    long_functions = [
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in MODULES.values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and body_lines(node) > 50
    ]
    limits.warn("50 lines of a function", long_functions)


@pytest.mark.program
@pytest.mark.parametrize("module", PURE_MODULES)
def test_pure_modules_load_nothing_heavy(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(process.stdout.split()) & HEAVY == set()


def test_aggregates_import_only_the_package() -> None:
    allowed = {"cqrs_cli", *sys.stdlib_module_names}
    for path in (ROOT / "aggregates").glob("*.py"):
        names = set(imported_names(path))
        assert {name.split(".")[0] for name in names} <= allowed, path
        assert not any(name.startswith("cqrs_cli.") for name in names), path


def test_no_file_has_a_vague_name() -> None:
    vague_names = {"utils", "util", "common", "helpers", "helper", "base", "misc"}
    assert [path for path in PACKAGE.rglob("*") if path.stem in vague_names] == []
