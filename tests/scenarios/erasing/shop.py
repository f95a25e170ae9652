"""The project of examples/customers, with a broker of its own whose disk is looked at."""

import re
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.brokers import Broker
from tests.support.project import Project


class Shop(Project):
    """The customers, and one secret for each of their personal values."""

    def __init__(self, folder: Path, broker: Broker, disk: Path) -> None:
        super().__init__(folder, broker.connection, "")
        self.broker, self.disk = broker, disk
        self.needles: list[str] = []
        self.said = ""
        self.plain: set[str] = set()  # payloads of commands, as senders have stored them

    def needle(self) -> str:
        self.needles.append(secrets.token_hex(12))
        return self.needles[-1]

    def look(self, *arguments: str) -> str:
        """The output of a command, which must succeed; its notes are kept."""
        with self.running(*arguments) as process:
            out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        self.said += err
        return out

    def found(self, *folders: Path) -> set[str]:
        """The files below the folders that have any of the needles."""
        wanted = re.compile("|".join(self.needles).encode())
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return {str(path) for path in files if wanted.search(path.read_bytes())}

    def customers(self) -> int:
        """On the mailing list."""
        with closing(sqlite3.connect(self.folder / "projections.db")) as db:
            (count,) = db.execute("SELECT count(*) FROM mailing_list").fetchone()
            db.execute("VACUUM")
            return int(count)
