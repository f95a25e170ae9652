import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cqrs_cli.core.aggregate.code_digest import code_digest, reach_digest
from tests.support import ROOT

Digest = Callable[..., str]
SOURCE = "def f(x):\n    return x + 1\n"


@pytest.fixture
def digest_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Digest]:
    """A function that returns the digest of module `one` in a package of these modules."""
    monkeypatch.syspath_prepend(tmp_path)

    packages: set[str] = set()

    def compute(
        reached: str | None = None, messages: tuple[str, ...] = (), package: str = "sources", **sources: str
    ) -> str:
        root = package.partition(".")[0]
        packages.add(root)
        shutil.rmtree(tmp_path / root, ignore_errors=True)
        folder = tmp_path.joinpath(*package.split("."))
        for name, source in {"__init__": "", **sources}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.py").write_text(source)
        (tmp_path / root / "__init__.py").touch()
        forget(root)
        importlib.invalidate_caches()
        importlib.import_module(f"{package}.one")
        if reached is None:
            return code_digest(f"{package}.one")
        return reach_digest(f"{package}.one", [reached], messages)

    yield compute
    for root in packages:
        forget(root)


def forget(package: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def test_the_code_of_the_module_counts(digest_of: Digest) -> None:
    assert digest_of(one=SOURCE) != digest_of(one=SOURCE.replace("1", "2"))


def test_comments_and_layout_do_not_count(digest_of: Digest) -> None:
    dressed = '"""Doc."""\n# comment\ndef f(x):\n    """Doc."""\n\n    return (x\n        + 1)\n'
    assert digest_of(one=SOURCE) == digest_of(one=dressed)


def test_docstring_alone_is_an_empty_function(digest_of: Digest) -> None:
    assert digest_of(one='def f():\n    """Doc."""\n') == digest_of(one="def f():\n    pass\n")


@pytest.mark.parametrize(
    "line", ["from . import two", "from .two import f", "from sources import two", "import sources.two"]
)
def test_imports_from_its_package_count(digest_of: Digest, line: str) -> None:
    assert digest_of(one=line, two=SOURCE) != digest_of(one=line, two=SOURCE.replace("1", "2"))


def test_other_modules_do_not_count(digest_of: Digest) -> None:
    assert digest_of(one=SOURCE, two="a = 1") == digest_of(one=SOURCE, two="a = 2")


def test_module_twice_imported_is_read_once(digest_of: Digest) -> None:
    """The modules imported after it are read, too."""
    sources = {
        "one": "from . import four, two, three",
        "three": "from . import two",
        "two": "from . import three",
    }
    assert digest_of(**sources, four=SOURCE) != digest_of(**sources, four=SOURCE.replace("1", "2"))


def test_modules_may_import_each_other(digest_of: Digest) -> None:
    assert digest_of(one="from . import two", two="from . import one")


@pytest.mark.program
def test_hash_seed_does_not_matter() -> None:
    program = (
        "from cqrs_cli.core.aggregate.code_digest import code_digest; import aggregates.order as m; "
        "print(code_digest(m.__name__))"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in "12"
    ]
    assert found[0] == found[1] != "\n"


def test_name_of_the_package_does_not_count(digest_of: Digest) -> None:
    """The package's folder does not count either: a copy of the code has the same digest."""
    deep = {"one": "from .inner import two\ndef f(): return two", "inner/__init__": "", "inner/two": SOURCE}
    assert (
        digest_of(**deep)
        == digest_of(package="renamed", **deep)
        == digest_of(package="sources.within", **deep)
    )
    assert len(digest_of(**deep)) == 16
    reached = digest_of("f", **deep)
    assert reached == digest_of("f", package="renamed", **deep) and len(reached) == 16


def test_there_is_none_without_source() -> None:
    assert code_digest("builtins") == code_digest("no_such_module") == ""


REACHED = "from .two import f\nLIMIT = 3\ndef g(x):\n    return h(x)\ndef h(x):\n    return f(x) + LIMIT\n"


@pytest.mark.parametrize(
    ("one", "two", "counts"),
    [
        (REACHED.replace("LIMIT = 3", "LIMIT = 4"), SOURCE, True),
        (REACHED.replace("+ LIMIT", "- LIMIT"), SOURCE, True),
        (REACHED, SOURCE.replace("1", "2"), True),
        (REACHED + "def other():\n    return 1\n", SOURCE, False),
        (REACHED.replace("    return h", "    # comment\n    return h"), SOURCE, False),
    ],
)
def test_only_what_is_reached_counts(digest_of: Digest, one: str, two: str, counts: bool) -> None:
    same = digest_of("g", one=REACHED, two=SOURCE) == digest_of("g", one=one, two=two)
    assert same is not counts


def test_dotted_import_is_reached(digest_of: Digest) -> None:
    one = "import sources.two\ndef g(x):\n    return sources.two.f(x)\n"
    assert digest_of("g", one=one, two=SOURCE) != digest_of("g", one=one, two=SOURCE.replace("1", "2"))


def test_other_packages_do_not_count(digest_of: Digest, tmp_path: Path) -> None:
    """A dependency belongs to its own release, not to this aggregate."""
    found = set()
    for number in (1, 2):
        (tmp_path / "neighbour.py").write_text(f"A = {number}")
        forget("neighbour")
        found.add(digest_of(one="import neighbour\n" + SOURCE))
    forget("neighbour")
    assert len(found) == 1


def test_unknown_name_reaches_everything(digest_of: Digest) -> None:
    one, other = SOURCE + "def g():\n    return 1\n", SOURCE + "def g():\n    return 2\n"
    assert digest_of("<lambda>", one=one) != digest_of("<lambda>", one=other)


MESSAGE = """
class Placed(Event):
    customer: str

    def shown(self):
        return self.customer


def evolve(state, event):
    return event.shown() if isinstance(event, Placed) else state
"""


def test_fields_of_messages_do_not_count(digest_of: Digest) -> None:
    """A new field is a change of the schema, not of the code's meaning. A new method is a change of the code."""
    source = "Event = object\nclass Address: pass\n" + MESSAGE
    known = digest_of(reached="evolve", messages=("Placed",), one=source)
    longer = source.replace(
        "customer: str", 'customer: str\n    to: Address = Address()\n    channel: str = "web"'
    )
    assert digest_of(reached="evolve", messages=("Placed",), one=longer) == known
    assert digest_of(reached="evolve", one=longer) != digest_of(reached="evolve", one=source)
    other = source.replace("return self.customer", "return self.customer + '!'")
    assert digest_of(reached="evolve", messages=("Placed",), one=other) != known
