"""The project of examples/customers, with its own broker whose disk the tests search."""

import re
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.brokers import Broker
from tests.support.project import Project


class Shop(Project):
    """The customers, with one secret for each personal value."""

    def __init__(self, folder: Path, broker: Broker, disk: Path) -> None:
        super().__init__(folder, broker.connection, "")
        self.broker, self.disk = broker, disk
        self.needles: list[str] = []
        self.said = ""
        self.plain: set[str] = set()  # payloads of commands, as senders stored them

    def needle(self) -> str:
        self.needles.append(secrets.token_hex(12))
        return self.needles[-1]

    def look(self, *arguments: str) -> str:
        """Run a command, which must succeed, and return its output. Its stderr is kept in `said`."""
        with self.running(*arguments) as process:
            out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        self.said += err
        return out

    def found(self, *folders: Path) -> set[str]:
        """Return the files below the folders that contain any of the needles."""
        pattern = re.compile("|".join(self.needles).encode())
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return {str(path) for path in files if pattern.search(path.read_bytes())}

    def customers(self) -> int:
        """Return the number of customers on the mailing list."""
        with closing(sqlite3.connect(self.folder / "projections.db")) as db:
            (count,) = db.execute("SELECT count(*) FROM mailing_list").fetchone()
            db.execute("VACUUM")
            return int(count)
