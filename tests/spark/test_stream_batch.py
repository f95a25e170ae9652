"""The latest batch of a stream, from its checkpoint."""

from pathlib import Path

import pytest

from cqrs_cli.errors import UsageError
from cqrs_cli.spark.stream_batch import StreamBatch, read_latest_batch


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint as Spark writes it, with eleven batches."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text('{"id":"query-1"}')
    for number in range(11):
        lines = ["v1", f'{{"batchWatermarkMs":0,"batchTimestampMs":{number}000,"conf":{{}}}}', "0"]
        (tmp_path / "offsets" / str(number)).write_text("\n".join(lines))
    (tmp_path / "offsets" / ".10.crc").touch()
    return tmp_path


def test_checkpoint_has_the_first_try(checkpoint: Path) -> None:
    assert read_latest_batch(str(checkpoint), numbers_rows=True) == StreamBatch("query-1", 10, 10_000)


def test_query_with_state_needs_ids(checkpoint: Path) -> None:
    (checkpoint / "state/0/_metadata").mkdir(parents=True)
    (checkpoint / "state/0/_metadata/metadata").touch()
    with pytest.raises(UsageError, match="which a query with state does not keep"):
        read_latest_batch(str(checkpoint), numbers_rows=True)
    assert read_latest_batch(str(checkpoint), numbers_rows=False).number == 10


@pytest.mark.parametrize("location", [None, "missing", "hdfs+x://a"])
def test_unreadable_checkpoint_is_refused(location: str | None) -> None:
    with pytest.raises(UsageError, match="checkpointLocation"):
        read_latest_batch(location, numbers_rows=False)
