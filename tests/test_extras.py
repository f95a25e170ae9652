"""The base installation sends and reads without Spark, LMDB and Arrow; other commands name their extra."""

import subprocess
import sys
import tomllib

import pytest

from cqrs_cli import extras
from cqrs_cli.errors import ConfigurationError
from tests.support import ROOT

HEAVY = {"pyspark", "py4j", "lmdb", "numpy", "pandas", "pyarrow"}


def test_missing_modules_are_named() -> None:
    without_spark = {"pyspark": None, "lmdb": None}
    with pytest.raises(ConfigurationError) as raised:
        extras.require("spark", "cqrs run", lambda name: without_spark.get(name, name))
    assert str(raised.value) == (
        "cqrs run needs pyspark, lmdb, which is not installed; type: pip install 'cqrs-cli[spark]'"
    )


@pytest.mark.parametrize("extra", extras.EXTRAS)
def test_installed_extras_are_accepted(extra: str) -> None:
    extras.require(extra, "cqrs run", lambda name: name)


def test_failed_import_names_its_extra() -> None:
    error = extras.explain_import(ModuleNotFoundError("No module", name="pyarrow.fs"))
    assert error is not None and error.hint == "type: pip install 'cqrs-cli[spark]'"
    assert extras.explain_import(ModuleNotFoundError("No module", name="shop")) is None


def test_every_extra_is_in_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.EXTRAS) <= project["optional-dependencies"].keys()
    assert not [line for line in project["dependencies"] if line.split(">")[0] in HEAVY]


@pytest.mark.program
@pytest.mark.parametrize(
    "program",
    [
        "import cqrs_cli; cqrs_cli.Client, cqrs_cli.decode",
        "import cqrs_cli.cli.main as m; m.load_commands()",
        "import cqrs_cli.testing",
        "import cqrs_cli.status.reader",
        "import cqrs_cli.kafka.embedded.broker",
    ],
)
def test_base_imports_nothing_heavy(program: str) -> None:
    code = f"{program}; import sys; print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert {name.partition(".")[0] for name in process.stdout.split()} & HEAVY == set()
