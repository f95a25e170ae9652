"""Reads the latest batch of a stream from Spark's checkpoint: its id, and the time of its first attempt."""

import json
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.errors import CqrsError, UsageError
from cqrs_cli.storage.folder import open_folder


class StreamBatch(NamedTuple):
    """A batch of a stream."""

    query: str  # id of the stream's query, which its checkpoint contains
    number: int  # number of the batch
    first_try: int  # time of the first attempt to write the batch, ms since the epoch


def read_latest_batch(checkpoint: str | None, numbers_rows: bool) -> StreamBatch:
    """Return the latest batch in a checkpoint. Spark writes the batch, with the time, before the first attempt.

    Raises `UsageError` for a checkpoint that cannot be read. With `numbers_rows`, also raises it for a query with
    state: such a query has a shuffle, so a repeated batch may have another order of rows.
    """
    if checkpoint is None:
        raise UsageError(
            "option checkpointLocation is missing, and the sink needs the time of a batch's first try",
            'write .option("checkpointLocation", "a folder of this stream")',
        )
    try:
        folder = open_folder(checkpoint, Path.cwd())
        offsets = folder.subfolder("offsets")
        has_state = bool(folder.subfolder("state", "0", "_metadata").files())
        number = max(int(file.name) for file in offsets.files() if file.name.isdigit())
        times = json.loads(
            offsets.read(str(number)).splitlines()[1]
        )  # the first line is the format's version
        query = json.loads(folder.read("metadata"))
        batch = StreamBatch(query["id"], number, times["batchTimestampMs"])
    except (CqrsError, ValueError, KeyError, IndexError, TypeError) as error:
        raise UsageError(
            f"checkpointLocation {checkpoint}: the sink cannot read the time of the batch: {error}",
            "use a folder that the driver can read as a file, or in an object store",
        ) from error
    if numbers_rows and has_state:
        raise UsageError(
            "option ids: rows are numbered in their order, which a query with state does not keep in a repeated batch, "
            "because it has a shuffle",
            "add a column id",
        )
    return batch
