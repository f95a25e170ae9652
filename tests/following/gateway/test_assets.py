"""The files of the console: complete in the wheel, unchanged from npm, short, and served with a strict policy."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from starlette.requests import Request

from cqrs_cli.following.gateway.assets import Assets
from cqrs_cli.following.gateway.gateway import Problem
from tests.support import ROOT

WEB = ROOT / "cqrs_cli" / "following" / "gateway" / "web"
VENDOR = WEB / "vendor"
OWN_FILES = sorted(path for path in WEB.rglob("*") if path.is_file() and path.parent != VENDOR)


def request(*headers: tuple[bytes, bytes]) -> Request:
    return Request({"type": "http", "method": "GET", "path": "/", "headers": list(headers)})


def test_vendored_files_are_those_of_npm() -> None:
    listed = json.loads((VENDOR / "versions.json").read_text())["files"]
    assert listed.keys() == {path.name for path in VENDOR.iterdir()} - {"versions.json"}
    for name, file in listed.items():
        text = (VENDOR / name).read_text(encoding="utf-8")
        for original, replacement in file.get("replaced", {}).items():
            text = text.replace(replacement, original)
        assert hashlib.sha256(text.encode()).hexdigest() == file["sha256"], name


@pytest.mark.parametrize("path", OWN_FILES, ids=lambda path: path.name)
def test_own_files_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300


def test_wheel_contains_all_files() -> None:
    packed = {Path(file.path) for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert packed >= {path for path in WEB.rglob("*") if path.is_file()}


def test_policy_permits_only_own_files() -> None:
    response = Assets().response(request(), "index.html")
    sources = set(re.findall(r"'[^']*'|https?:\S*|\*", response.headers["content-security-policy"]))
    assert sources == {"'none'", "'self'", "'script'"}


def test_unchanged_file_is_not_sent_again() -> None:
    assets = Assets()
    tag = assets.response(request(), "main.js").headers["etag"]
    again = assets.response(request((b"if-none-match", tag.encode())), "main.js")
    assert (again.status_code, again.body) == (304, b"")


@pytest.mark.parametrize("path", ["../assets.py", "/etc/passwd", "pages", ""])
def test_other_files_are_not_served(path: str) -> None:
    with pytest.raises(Problem, match="the console has no file"):
        Assets().response(request(), path)
