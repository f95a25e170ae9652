"""A MariaDB server for tests: Debian's, in a temporary folder, on a loopback port, and never as root."""

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.absent_broker import free_port
from tests.support.waiting import eventually

#: Options of every program: the machine's configuration is ignored.
_NO_DEFAULTS = ["--no-defaults"]


def server_programs() -> tuple[str, str] | None:
    """Return the programs `mariadb-install-db` and `mariadbd`; None if they are missing."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    needed = ("mariadb-install-db", "mariadbd", "my_print_defaults")  # the first calls the last
    install, server, defaults = (shutil.which(name, path=path) for name in needed)
    return (install, server) if install and server and defaults else None


class MariaDb:
    """A server that can be killed and started again. `options` are additional options of the server."""

    def __init__(self, folder: Path, *options: str) -> None:
        programs_found = server_programs()
        assert programs_found is not None
        install, self._server = programs_found
        self._folder, self._options = folder, options
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(folder, self._user)
        self.port = free_port()
        install_result = self._run(install, "--auth-root-authentication-method=normal", "--skip-test-db")
        assert install_result.wait() == 0, (folder / "log").read_text()
        self._process = self._run_server()

    def _run(self, program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        user_options: dict[str, Any] = (
            {"user": self._user, "group": None, "extra_groups": []} if self._user else {}
        )
        call = [
            program,
            *_NO_DEFAULTS,
            f"--datadir={self._folder / 'data'}",
            f"--tmpdir={self._folder}",
            *arguments,
        ]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(call, stdout=log, stderr=log, cwd=self._folder, **user_options)

    def _run_server(self) -> "subprocess.Popen[bytes]":
        process = self._run(
            self._server,
            f"--socket={self._folder / 'socket'}",
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            "--innodb-buffer-pool-size=64M",
            *self._options,
        )
        eventually(self.answers, within=60)
        return process

    def answers(self) -> bool:
        import pymysql

        try:
            pymysql.connect(host="127.0.0.1", port=self.port, user="root").close()
        except pymysql.MySQLError:
            return False
        return True

    def execute(self, statement: str) -> None:
        import pymysql

        db = pymysql.connect(host="127.0.0.1", port=self.port, user="root", autocommit=True)
        try:
            db.cursor().execute(statement)
        finally:
            db.close()

    def make_database(self, options: str = "") -> str:
        """Create a database and return its URL. `options` is appended to the statement."""
        name = f"t{uuid.uuid4().hex[:8]}"
        self.execute(f"CREATE DATABASE {name} {options}")
        return f"mariadb://root@127.0.0.1:{self.port}/{name}"

    def kill(self) -> None:
        """Kill the server with SIGKILL, as a crash does."""
        self._process.kill()
        self._process.wait()

    def start(self) -> None:
        self._process = self._run_server()


@contextmanager
def mariadb(*options: str) -> Iterator[MariaDb]:
    """Run a server, and delete it after the block."""
    with tempfile.TemporaryDirectory(prefix="cqrs-maria") as folder:
        server = MariaDb(Path(folder), *options)
        try:
            yield server
        finally:
            server.kill()
