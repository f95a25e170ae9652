"""The server process of the object store. moto implements S3 and checks signatures; a folder contains the objects.

A bucket is a subfolder, and an object is a file. So a kill loses no confirmed write, and a test can create buckets, and
change, age and remove objects, as files. A pipe is an object whose requests wait until the pipe is gone.
    python -m tests.support.objects.server FOLDER PORT
"""

import json
import re
import sys
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moto import settings
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import FakeKey, s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.support import ROOT
from tests.support.objects.running import CREDENTIALS, READER, REGION
from tests.support.waiting import eventually

_READING = {"s3:ListBucket", "s3:HeadBucket", "s3:GetObject"}


class FolderOfBuckets:
    """moto's WSGI application. Before each request it reads the folder's objects, and it writes changes back."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        self._known: dict[Path, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        bucket, _, name = environ["PATH_INFO"].lstrip("/").partition("/")
        file = self._root / bucket / name
        eventually(lambda: not file.is_fifo(), within=600)
        with self._lock:
            self._read(bucket)
            response = list(self._moto(environ, start_response))
            if name and environ["REQUEST_METHOD"] not in ("GET", "HEAD") and (self._root / bucket).is_dir():
                self._write(file, self._backend.buckets[bucket].keys.get(name))
        return response

    def _read(self, bucket: str) -> None:
        folder, buckets = self._root / bucket, self._backend.buckets
        if not folder.is_dir():
            buckets.pop(bucket, None)
            s3_backends.bucket_accounts.pop(bucket, None)
            return
        if bucket not in buckets:
            self._backend.create_bucket(bucket, REGION)
            self._known = {file: name for file, name in self._known.items() if folder not in file.parents}
        keys = buckets[bucket].keys
        files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
        for name in [name for name in keys if name not in files and not name.endswith("/")]:
            keys.pop(name)
        for name, file in files.items():
            status = file.stat()
            if name not in keys or self._known.get(file) != (status.st_ino, status.st_mtime_ns):
                key = self._backend.put_object(bucket, name, file.read_bytes(), disable_notification=True)
                key.last_modified = datetime.fromtimestamp(status.st_mtime, UTC).replace(tzinfo=None)
                self._known[file] = (status.st_ino, status.st_mtime_ns)

    def _write(self, file: Path, key: FakeKey | None) -> None:
        """Write an object that a request has changed into the folder, or delete its file."""
        if key is None:
            file.unlink(missing_ok=True)
        elif not key.name.endswith("/"):
            file.parent.mkdir(parents=True, exist_ok=True)
            draft = self._root / f"draft-{threading.get_ident()}"
            draft.write_bytes(key.value)
            draft.replace(file)
            self._known[file] = (file.stat().st_ino, file.stat().st_mtime_ns)


class _SilentRequestHandler(WSGIRequestHandler):  # type: ignore[misc]  # werkzeug has no types
    def log(self, type: str, message: str, *arguments: Any) -> None:
        """Log nothing."""


def documented_policies() -> list[str]:
    """Return the documented policies for users with write access and with read access, for all buckets."""
    text = (ROOT / "docs" / "payloads.md").read_text(encoding="utf-8")
    policy_text = next(
        block for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL) if "Statement" in block
    ).replace("company-payloads", "*")
    # Amazon's S3 includes HeadBucket in the right to list.
    policy_text = policy_text.replace('"s3:ListBucket"', '"s3:ListBucket", "s3:HeadBucket"')
    read_policy = json.loads(policy_text)
    for statement in read_policy["Statement"]:
        statement["Action"] = [action for action in statement["Action"] if action in _READING]
    return [policy_text, json.dumps(read_policy)]


def main(folder: str, port: str) -> None:
    """Serve until killed, or until the parent process is gone.

    The users have the rights of the documentation, and no others.
    """
    for credentials, policy in zip((CREDENTIALS, READER), documented_policies(), strict=True):
        user = iam_backends[DEFAULT_ACCOUNT_ID]["aws"].create_user(REGION, credentials["AWS_ACCESS_KEY_ID"])
        user.put_policy("documented", policy)
        key = user.create_access_key("AKIA")
        key.access_key_id = credentials["AWS_ACCESS_KEY_ID"]
        key.secret_access_key = credentials["AWS_SECRET_ACCESS_KEY"]
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    buckets = FolderOfBuckets(Path(folder))
    server = make_server(
        "127.0.0.1", int(port), buckets, threaded=True, request_handler=_SilentRequestHandler
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("serving", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
