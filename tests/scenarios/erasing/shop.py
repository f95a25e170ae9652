"""The project of examples/customers, with its own broker whose disk the tests search."""

import re
import secrets
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from cqrs_cli.settings.settings import load_settings
from tests.support.brokers import Broker
from tests.support.commands import send_unchecked
from tests.support.project import Project


class Shop(Project):
    """The customers, with a random text for each personal value."""

    def __init__(self, folder: Path, broker: Broker, disk: Path) -> None:
        super().__init__(folder, broker.connection, "")
        self.broker, self.disk = broker, disk
        self.personal_texts: list[str] = []
        self.stderr = ""
        self.plain_payloads: set[str] = set()  # payloads of commands, as senders stored them

    def new_personal_text(self) -> str:
        """Return a random text, which the tests search for."""
        self.personal_texts.append(secrets.token_hex(12))
        return self.personal_texts[-1]

    def run_cqrs(self, *arguments: str) -> str:
        """Run a command, which must succeed, and return its output. Its error output is appended to `stderr`."""
        with self.running(*arguments) as process:
            out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        self.stderr += err
        return out

    def send_unchecked(self, lines: list[dict[str, Any]]) -> None:
        """Send commands to customers, also commands that `cqrs send` rejects, with their payloads in the store."""
        payloads = load_settings({}, self.folder).payloads()
        send_unchecked(replace(self.connection, payloads=payloads), self.prefix, lines)

    def files_with_personal_text(self, *folders: Path) -> set[str]:
        """Return the files below the folders that contain any of the personal texts."""
        pattern = re.compile("|".join(self.personal_texts).encode())
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return {str(path) for path in files if pattern.search(path.read_bytes())}

    def customer_count(self) -> int:
        """Return the number of customers on the mailing list."""
        with closing(sqlite3.connect(self.folder / "projections.db")) as db:
            (count,) = db.execute("SELECT count(*) FROM mailing_list").fetchone()
            db.execute("VACUUM")
            return int(count)
