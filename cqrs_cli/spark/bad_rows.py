"""The invalid rows of a write, for the option `badRecordsPath`."""

import tempfile
from pathlib import Path
from typing import Any

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.storage.folder import open_folder

#: The bytes of lines that are kept in memory, and that are written at once.
_CHUNK_BYTES = 8 << 20


class BadRows:
    """The invalid rows of one task, in a file with a line of JSON for each row. A repeated task replaces its file.

    A line: `{"reason":"column by is null","row_number":1,"row":{"subject":"c-1","by":null,"id":"7"}}`.
    """

    def __init__(self, location: str, name: str) -> None:
        self._folder, self._name = open_folder(location, Path.cwd()), f"{name}.json"
        self._lines = tempfile.SpooledTemporaryFile(_CHUNK_BYTES)  # noqa: SIM115 - `save` closes it

    def add(self, row_number: int, row: dict[str, Any], reason: str) -> None:
        """Add a row, and why it is invalid."""
        self._lines.write(encode_json({"reason": reason, "row_number": row_number, "row": row}) + b"\n")

    def save(self) -> None:
        """Write the file. If every row was valid, remove the file of an earlier try."""
        with self._lines:
            if self._lines.tell():
                self._lines.seek(0)
                self._folder.write(self._name, iter(lambda: self._lines.read(_CHUNK_BYTES), b""))
            else:
                self._folder.remove(self._name)
