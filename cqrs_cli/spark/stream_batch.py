"""The batch that a stream writes: its id and the time of its first try, from Spark's checkpoint."""

import json
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.errors import CqrsError, UsageError
from cqrs_cli.storage.folder import open_folder


class StreamBatch(NamedTuple):
    """A batch of a stream. `query` is the id of the query, which is stored in its checkpoint."""

    query: str
    number: int
    first_try: int  # ms


def read_latest_batch(checkpoint: str | None, numbers_rows: bool) -> StreamBatch:
    """Return the latest batch in a checkpoint. Spark writes it to `offsets` with the time, before the first try.

    Raises `UsageError` for a checkpoint that cannot be read, and for a query with state if `numbers_rows` is true: such
    a query has a shuffle.
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
