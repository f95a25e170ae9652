"""A PostgreSQL of the tests' own: Debian's, in a temporary folder, on a socket there, and never as root."""

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

#: Users that the server may be when the tests are root, which it refuses to be.
_USERS = ("postgres", "nobody")


def binaries() -> Path | None:
    """The folder with `initdb` and `postgres`, of the newest release; None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: path.parts)
    if found:
        return found[-1].parent
    there = shutil.which("postgres")
    return Path(there).resolve().parent if there else None


class Postgres:
    """A server, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        found = binaries()
        assert found is not None
        self._bin, self._folder = found, folder
        self._user = next(user for user in _USERS if _exists(user)) if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(folder, self._user)
        data = str(folder / "data")
        self._run("initdb", "-D", data, "-A", "trust", "-U", "cqrs", "-N", "--no-instructions").wait()
        self._process = self._run_server()

    def _run(self, program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        how: dict[str, Any] = {"user": self._user, "group": None, "extra_groups": []} if self._user else {}
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self._bin / program), *arguments], stdout=log, stderr=log, cwd=self._folder, **how
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
        """The URL of a new database."""
        import psycopg

        name = f"t{uuid.uuid4().hex[:8]}"
        with psycopg.connect(f"host={self._folder} user=cqrs dbname=postgres", autocommit=True) as db:
            db.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type, unused-ignore]
        return f"postgresql://cqrs@/{name}?host={self._folder}"

    def kill(self) -> None:
        """SIGQUIT: it ends at once, as after a crash."""
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
    """Nothing of it is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="cqrs-pg") as folder:
        server = Postgres(Path(folder))
        try:
            yield server
        finally:
            server.kill()
