"""The console's files: `web/index.html` at `/`, and the other files of `web/` at `/assets/`.

The files are served as they are: no build step, and no request to another host. The content security policy permits
neither inline scripts nor `eval`.
"""

import hashlib
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from cqrs_cli.following.gateway.gateway import Problem

_MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

#: `no-cache`: a browser asks whether its copy is still valid, so a new version of the gateway is visible at once.
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Asset(NamedTuple):
    """A file of the console."""

    body: bytes
    media_type: str
    etag: str


class Assets:
    """All files of the console. They are read into memory when this object is created."""

    def __init__(self) -> None:
        web = resources.files("cqrs_cli.following.gateway").joinpath("web")
        self._files: Mapping[str, Asset] = dict(_read_folder(web, ""))

    def response(self, request: Request, path: str) -> Response:
        """Respond with a file, or with 304 if the browser has it; raises `Problem` 404."""
        asset = self._files.get(path)
        if asset is None:
            raise Problem(404, "no such file", f"the console has no file {path[:100]}")
        headers = {**_HEADERS, "ETag": asset.etag}
        if request.headers.get("if-none-match") == asset.etag:
            return Response(status_code=304, headers=headers)
        return Response(asset.body, headers=headers, media_type=asset.media_type)


def _read_folder(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    files = []
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            files += _read_folder(entry, f"{name}/")
        elif media_type := _MEDIA_TYPES.get(entry.name.rpartition(".")[2]):
            body = entry.read_bytes()
            files.append((name, Asset(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:16]}"')))
    return files
