"""A release names its version and day in each file, and its artifacts can be checked."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cqrs_cli.kafka.embedded.release import Jar
from cqrs_cli.version import __version__
from scripts.release import (
    ROOT,
    VERSIONED_FILES,
    ReleaseError,
    changelog_section,
    checksums,
    dated_changelog,
    with_version,
)
from scripts.sbom import add_jars, without_local_paths

CHANGELOG = """# Changelog

## [1.1.0] - unreleased

- Faster.

## [1.0.0] - 2026-11-01

- First.
"""


def test_release_notes_are_the_version_section() -> None:
    assert changelog_section(CHANGELOG, "1.1.0") == "- Faster."


@pytest.mark.parametrize(
    ("version", "text"),
    [("1.0.0", "was released on 2026-11-01"), ("2.0.0", "no section [2.0.0]"), ("1.1", "no section [1.1]")],
)
def test_wrong_version_is_an_error(version: str, text: str) -> None:
    with pytest.raises(ReleaseError, match=re.escape(text)):
        changelog_section(CHANGELOG, version)


def test_empty_section_is_an_error() -> None:
    with pytest.raises(ReleaseError, match="is empty"):
        changelog_section(CHANGELOG.replace("- Faster.\n", ""), "1.1.0")


def test_released_section_has_its_day() -> None:
    dated = dated_changelog(CHANGELOG, "1.1.0", "2026-12-01")
    assert "## [1.1.0] - 2026-12-01" in dated and "unreleased" not in dated


def test_current_version_has_a_changelog_section() -> None:
    assert f"## [{__version__}] - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", VERSIONED_FILES)
def test_each_mention_gets_the_version(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert __version__ in text
    assert __version__ not in with_version(text, __version__, "7.8.9")


def test_other_versions_are_kept() -> None:
    text = "jeepney==0.9.0\nversion: 0.9.0\nversion: 0.9.0rc1\n"
    assert with_version(text, "0.9.0", "1.0.0") == "jeepney==0.9.0\nversion: 1.0.0\nversion: 0.9.0rc1\n"


def test_checksums_are_checked_by_sha256sum(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("b.whl", "a.tar.gz")]
    for path in paths:
        path.write_bytes(path.name.encode())
    text = checksums(paths)
    assert text.splitlines()[0] == f"{hashlib.sha256(b'a.tar.gz').hexdigest()}  a.tar.gz"


def test_bill_of_materials_has_jars() -> None:
    document = add_jars({"components": [{"name": "msgspec"}]}, [Jar("org.slf4j:slf4j-api:1.7.36", "ab" * 32)])
    package, jar = document["components"]
    assert package == {"name": "msgspec"}
    assert (jar["purl"], jar["hashes"]) == (
        "pkg:maven/org.slf4j/slf4j-api@1.7.36",
        [{"alg": "SHA-256", "content": "ab" * 32}],
    )


def test_bill_of_materials_names_no_local_file() -> None:
    references = [{"url": "file:///home/ann/cqrs.whl"}, {"url": "https://example.org"}]
    (component,) = without_local_paths({"components": [{"externalReferences": references}]})["components"]
    assert component["externalReferences"] == references[1:]


@pytest.mark.program
def test_release_without_version_names_the_form() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "scripts.release"], cwd=ROOT, capture_output=True, text=True
    )
    assert (process.returncode, process.stderr) == (
        1,
        "error: '' is no version: type make release VERSION=1.2.3, or 1.2.3rc1\n",
    )
