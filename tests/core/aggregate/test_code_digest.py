import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cqrs_cli.core.aggregate.code_digest import code_digest, reachable_code_digest
from tests.support import ROOT

Digest = Callable[..., str]
SOURCE = "def f(x):\n    return x + 1\n"


@pytest.fixture
def digest_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Digest]:
    """A function that writes a package with these sources, and returns the digest of its module `one`."""
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
        unload(root)
        importlib.invalidate_caches()
        importlib.import_module(f"{package}.one")
        if reached is None:
            return code_digest(f"{package}.one")
        return reachable_code_digest(f"{package}.one", [reached], messages)

    yield compute
    for root in packages:
        unload(root)


def unload(package: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def test_the_code_of_the_module_counts(digest_of: Digest) -> None:
    assert digest_of(one=SOURCE) != digest_of(one=SOURCE.replace("1", "2"))


def test_comments_and_layout_do_not_count(digest_of: Digest) -> None:
    with_comments = '"""Doc."""\n# comment\ndef f(x):\n    """Doc."""\n\n    return (x\n        + 1)\n'
    assert digest_of(one=SOURCE) == digest_of(one=with_comments)


def test_docstring_alone_is_an_empty_function(digest_of: Digest) -> None:
    assert digest_of(one='def f():\n    """Doc."""\n') == digest_of(one="def f():\n    pass\n")


@pytest.mark.parametrize(
    "line", ["from . import two", "from .two import f", "from sources import two", "import sources.two"]
)
def test_imports_from_its_package_count(digest_of: Digest, line: str) -> None:
    assert digest_of(one=line, two=SOURCE) != digest_of(one=line, two=SOURCE.replace("1", "2"))


def test_other_modules_do_not_count(digest_of: Digest) -> None:
    assert digest_of(one=SOURCE, two="a = 1") == digest_of(one=SOURCE, two="a = 2")


def test_module_imported_twice_is_read_once(digest_of: Digest) -> None:
    """The modules that are imported after a repeated module are read, too."""
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
    digests = [
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
    assert digests[0] == digests[1] != "\n"


def test_name_of_the_package_does_not_count(digest_of: Digest) -> None:
    """The package's folder does not count either: a copy of the code has the same digest."""
    sources = {
        "one": "from .inner import two\ndef f(): return two",
        "inner/__init__": "",
        "inner/two": SOURCE,
    }
    assert (
        digest_of(**sources)
        == digest_of(package="renamed", **sources)
        == digest_of(package="sources.within", **sources)
    )
    assert len(digest_of(**sources)) == 16
    digest = digest_of("f", **sources)
    assert digest == digest_of("f", package="renamed", **sources) and len(digest) == 16


def test_digest_without_source_is_empty() -> None:
    assert code_digest("builtins") == code_digest("no_such_module") == ""


SOURCE_OF_G = (
    "from .two import f\nLIMIT = 3\ndef g(x):\n    return h(x)\ndef h(x):\n    return f(x) + LIMIT\n"
)


@pytest.mark.parametrize(
    ("source_of_one", "source_of_two", "counts"),
    [
        (SOURCE_OF_G.replace("LIMIT = 3", "LIMIT = 4"), SOURCE, True),
        (SOURCE_OF_G.replace("+ LIMIT", "- LIMIT"), SOURCE, True),
        (SOURCE_OF_G, SOURCE.replace("1", "2"), True),
        (SOURCE_OF_G + "def other():\n    return 1\n", SOURCE, False),
        (SOURCE_OF_G.replace("    return h", "    # comment\n    return h"), SOURCE, False),
    ],
)
def test_only_reachable_code_counts(
    digest_of: Digest, source_of_one: str, source_of_two: str, counts: bool
) -> None:
    is_equal = digest_of("g", one=SOURCE_OF_G, two=SOURCE) == digest_of(
        "g", one=source_of_one, two=source_of_two
    )
    assert is_equal is not counts


def test_code_of_dotted_imports_counts(digest_of: Digest) -> None:
    source_of_one = "import sources.two\ndef g(x):\n    return sources.two.f(x)\n"
    assert digest_of("g", one=source_of_one, two=SOURCE) != digest_of(
        "g", one=source_of_one, two=SOURCE.replace("1", "2")
    )


def test_other_packages_do_not_count(digest_of: Digest, tmp_path: Path) -> None:
    """A dependency belongs to its own release, not to this aggregate."""
    digests = set()
    for number in (1, 2):
        (tmp_path / "neighbour.py").write_text(f"A = {number}")
        unload("neighbour")
        digests.add(digest_of(one="import neighbour\n" + SOURCE))
    unload("neighbour")
    assert len(digests) == 1


def test_unknown_name_includes_the_whole_module(digest_of: Digest) -> None:
    source, changed_source = SOURCE + "def g():\n    return 1\n", SOURCE + "def g():\n    return 2\n"
    assert digest_of("<lambda>", one=source) != digest_of("<lambda>", one=changed_source)


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
    digest = digest_of(reached="evolve", messages=("Placed",), one=source)
    with_more_fields = source.replace(
        "customer: str", 'customer: str\n    to: Address = Address()\n    channel: str = "web"'
    )
    assert digest_of(reached="evolve", messages=("Placed",), one=with_more_fields) == digest
    assert digest_of(reached="evolve", one=with_more_fields) != digest_of(reached="evolve", one=source)
    changed_source = source.replace("return self.customer", "return self.customer + '!'")
    assert digest_of(reached="evolve", messages=("Placed",), one=changed_source) != digest
