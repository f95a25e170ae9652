"""The object store's server process, and the buckets of tests."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from tests.support import ROOT
from tests.support.absent_broker import free_port

#: The region of all buckets.
REGION = "eu-central-1"

#: The credentials of a user with write access and of a user with read access, in the form of AWS's own tools.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIATESTSTESTSTESTST", "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests"}
READER = {"AWS_ACCESS_KEY_ID": "AKIAREADREADREADREAD", "AWS_SECRET_ACCESS_KEY": "secret-of-readers"}


class ObjectServer:
    """A server of the S3 protocol. Confirmed writes survive its death."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "buckets"
        self._folder.mkdir()
        self.port = free_port()
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it responds."""
        with self._folder.with_name("server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.server", str(self._folder), str(self.port)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), self._folder.with_name("server.log").read_text()

    def kill(self) -> None:
        """Kill the server with its connections."""
        with self.process:
            self.process.kill()

    def pause(self) -> None:
        """Stop responding, but keep the connections."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Respond again."""
        self.process.send_signal(signal.SIGCONT)

    def bucket(self) -> "Bucket":
        """Create a bucket."""
        folder = self._folder / f"bucket-{uuid4().hex[:12]}"
        folder.mkdir()
        return Bucket(folder, self.port)


class Bucket(NamedTuple):
    """A bucket, whose objects are files of its folder."""

    folder: Path
    port: int

    def uri(self, path: str = "") -> str:
        """Return the URI of a folder in the bucket."""
        return (
            f"s3://{self.folder.name}/{path}?scheme=http&region={REGION}"
            f"&endpoint_override=127.0.0.1:{self.port}"
        )


@contextmanager
def object_server(folder: Path) -> Iterator[ObjectServer]:
    """Run a server while the block lasts. It ends with this process, even if this process is killed."""
    server = ObjectServer(folder)
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)
