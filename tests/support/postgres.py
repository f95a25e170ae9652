"""A PostgreSQL server for tests: Debian's, in a temporary folder, on a socket in it, and never as root."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.waiting import eventually

#: Users for the server if the tests run as root: PostgreSQL refuses to run as root.
_USERS = ("postgres", "nobody")


def binaries() -> Path | None:
    """Return the folder with `initdb` and `postgres` of the newest release; None if they are missing."""
    paths = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: path.parts)
    if paths:
        return paths[-1].parent
    program = shutil.which("postgres")
    return Path(program).resolve().parent if program else None


class Postgres:
    """A server that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        programs = binaries()
        assert programs is not None
        self._bin, self._folder = programs, folder
        self._user = next(user for user in _USERS if _exists(user)) if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(folder, self._user)
        data = str(folder / "data")
        self._run("initdb", "-D", data, "-A", "trust", "-U", "cqrs", "-N", "--no-instructions").wait()
        self._process = self._run_server()

    def _run(self, program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        user_options: dict[str, Any] = (
            {"user": self._user, "group": None, "extra_groups": []} if self._user else {}
        )
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self._bin / program), *arguments],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **user_options,
            )

    def _run_server(self) -> "subprocess.Popen[bytes]":
        process = self._run(
            "postgres", "-D", str(self._folder / "data"), "-k", str(self._folder), "-c", "listen_addresses="
        )
        eventually(self.answers)
        return process

    def answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(f"host={self._folder} user=cqrs dbname=postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def make_database(self) -> str:
        """Create a database and return its URL."""
        import psycopg

        name = f"t{uuid.uuid4().hex[:8]}"
        with psycopg.connect(f"host={self._folder} user=cqrs dbname=postgres", autocommit=True) as db:
            db.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type, unused-ignore]
        return f"postgresql://cqrs@/{name}?host={self._folder}"

    def kill(self) -> None:
        """Stop the server with SIGQUIT: it ends at once, as after a crash."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def start(self) -> None:
        self._process = self._run_server()


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a server, and delete it after the block."""
    with tempfile.TemporaryDirectory(prefix="cqrs-pg") as folder:
        server = Postgres(Path(folder))
        try:
            yield server
        finally:
            server.kill()
