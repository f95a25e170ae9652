"""Stores the invalid rows of a write, for the option `badRecordsPath`."""

import tempfile
from pathlib import Path
from typing import Any

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.storage.folder import open_folder

#: Lines of up to this number of bytes are kept in memory, before a temporary file is used. Also the bytes of one write.
_CHUNK_BYTES = 8 << 20


class BadRows:
    """Writes the invalid rows of one task to a file, with a line of JSON for each row. A repeated task replaces its
    file.

    A line is `{"reason":"column by is null","row_number":1,"row":{"subject":"c-1","by":null,"id":"7"}}`.
    """

    def __init__(self, location: str, name: str) -> None:
        self._folder, self._name = open_folder(location, Path.cwd()), f"{name}.json"
        self._lines = tempfile.SpooledTemporaryFile(_CHUNK_BYTES)  # noqa: SIM115 - `save` closes it

    def add(self, row_number: int, row: dict[str, Any], reason: str) -> None:
        """Add an invalid row. `row_number`: its number in the task, from 0. `reason`: why the row is invalid."""
        self._lines.write(encode_json({"reason": reason, "row_number": row_number, "row": row}) + b"\n")

    def save(self) -> None:
        """Write the file. If no row is invalid, remove the file of an earlier attempt of the task."""
        with self._lines:
            if self._lines.tell():
                self._lines.seek(0)
                self._folder.write(self._name, iter(lambda: self._lines.read(_CHUNK_BYTES), b""))
            else:
                self._folder.remove(self._name)
