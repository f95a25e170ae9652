"""Prepares a release: checks, tests, wheel, sdist, bill of materials, checksums, commit and tag. Nothing is uploaded.

make release VERSION=0.9.0

If a step fails, all changed files are restored. The workflow `release.yml` publishes the tag once it is pushed.
"""

import hashlib
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from cqrs_cli.version import __version__

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"

#: Files that name the current version in an image's tag, a label or a chart.
VERSIONED_FILES = (
    *("Dockerfile", "compose/README.md", "compose/compose.yaml", "deploy/helm/cqrs/Chart.yaml"),
    *("docs/deployment.md", "cqrs_cli/version.py"),
)

_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(rc[1-9]\d*)?")

#: A mention of a version: `cqrs:0.9.0`, `version: 0.9.0`, `version="0.9.0"`, `__version__ = "0.9.0"`.
_MENTION = r"((?:cqrs:|[vV]ersion: |version=\"|__version__ = \")){}(?![\w.])"


class ReleaseError(Exception):
    """The release cannot be made. The text has the cause and the remedy."""


def changelog_section(changelog: str, version: str) -> str:
    """Return the text below the heading of a version. Raises `ReleaseError` if it is missing, released or empty."""
    match = re.search(rf"^## \[{re.escape(version)}\] - (\S+)\n(.*?)(?=^## \[|\Z)", changelog, re.M | re.S)
    if match is None:
        raise ReleaseError(f"CHANGELOG.md has no section [{version}]: add `## [{version}] - unreleased`")
    if match[1] != "unreleased":
        raise ReleaseError(
            f"CHANGELOG.md: version {version} was released on {match[1]}; choose the next version"
        )
    if not match[2].strip():
        raise ReleaseError(f"CHANGELOG.md: the section [{version}] is empty; describe what changed")
    return match[2].strip()


def dated_changelog(changelog: str, version: str, day: str) -> str:
    """Return the changelog with the day of the release in the heading of the version."""
    return changelog.replace(f"## [{version}] - unreleased", f"## [{version}] - {day}", 1)


def with_version(text: str, old: str, new: str) -> str:
    """Return a file's text in which each mention of the old version is the new version."""
    return re.sub(_MENTION.format(re.escape(old)), rf"\g<1>{new}", text)


def checksums(paths: list[Path]) -> str:
    """Return a file for `sha256sum --check`, sorted by name."""
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(paths))
    return "".join(lines)


def check_repository(version: str) -> None:
    """Raise `ReleaseError` unless the repository can release this version."""
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"{version!r} is no version: type make release VERSION=1.2.3, or 1.2.3rc1")
    if _git("status", "--porcelain"):
        raise ReleaseError("the tree has uncommitted changes: commit or remove them (git status)")
    if (branch := _git("branch", "--show-current")) != "main":
        raise ReleaseError(f"releases are made on main, this is {branch or 'no branch'}: git switch main")
    if _git("tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} exists: choose the next version")


def build_artifacts(version: str) -> None:
    """Build wheel, sdist, the bill of materials and the checksums in dist/."""
    subprocess.run(["make", "dist"], cwd=ROOT, check=True)
    (wheel,) = DIST.glob("*.whl")
    sbom = DIST / f"cqrs_cli-{version}.cdx.json"
    subprocess.run([sys.executable, "-m", "scripts.sbom", wheel, sbom], cwd=ROOT, check=True)
    artifacts = [path for path in DIST.iterdir() if path.name != "SHA256SUMS"]
    (DIST / "SHA256SUMS").write_text(checksums(artifacts), encoding="utf-8")


def make_release(version: str) -> None:
    """Make the commit, the tag and the artifacts of a version."""
    check_repository(version)
    path = ROOT / "CHANGELOG.md"
    changelog = path.read_text(encoding="utf-8")
    notes = changelog_section(changelog, version)
    try:
        path.write_text(
            dated_changelog(changelog, version, f"{datetime.now(UTC):%Y-%m-%d}"), encoding="utf-8"
        )
        for name in VERSIONED_FILES:
            text = (ROOT / name).read_text(encoding="utf-8")
            (ROOT / name).write_text(with_version(text, __version__, version), encoding="utf-8")
        for target in ("check", "docs", "test"):
            _make(target)
        _make("artifacts")
        _git("commit", "--all", "--message", f"release: version {version}")
    except BaseException:
        _git("checkout", "--", ".")
        raise
    _git(
        "tag", "--annotate", f"v{version}", "--cleanup=verbatim", "--message", f"Version {version}\n\n{notes}"
    )
    print(f"dist/ has the artifacts. To publish them: git push --atomic origin main v{version}")
    print(f"To take the release back before the push: git tag -d v{version} && git reset --hard HEAD~1")


def _make(target: str) -> None:
    print(f"make {target}", file=sys.stderr, flush=True)
    subprocess.run(["make", target], cwd=ROOT, check=True)


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()


def main() -> None:
    """Release the version of the command line; `--artifacts` builds dist/ only, for the version of the tree."""
    try:
        if sys.argv[1:] == ["--artifacts"]:
            build_artifacts(__version__)
        else:
            make_release(sys.argv[1] if len(sys.argv) > 1 else "")
    except ReleaseError as error:
        sys.exit(f"error: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(
            f"error: {' '.join(map(str, error.cmd))} ended with {error.returncode}; nothing was released"
        )


if __name__ == "__main__":
    main()
