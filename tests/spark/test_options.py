"""The options of a read, and their errors."""

from pathlib import Path

import pytest

from cqrs_cli.errors import UsageError
from cqrs_cli.spark.options import Bound, parse_options


def test_aggregate_is_the_only_required_option() -> None:
    parsed = parse_options({"aggregate": "order"})
    assert (parsed.kind, parsed.type, parsed.start, parsed.end) == (
        "events",
        None,
        Bound("earliest"),
        Bound("latest"),
    )
    assert (parsed.project, parsed.splits) == (Path.cwd(), None)


def test_options_are_read_in_any_case() -> None:
    parsed = parse_options(
        {"AGGREGATE": "order", "startingoffsets": '{"0": 7}', "endingOffsets": "latest", "splits": "3"}, False
    )
    assert (parsed.start, parsed.splits) == (Bound("offsets", {0: 7}), 3)


def test_times_are_moments() -> None:
    parsed = parse_options({"aggregate": "order", "since": "1970-01-02", "until": "1970-01-02T00:00:01Z"})
    assert (parsed.start.time, parsed.end.time) == (86_400_000, 86_401_000)


@pytest.mark.parametrize(
    ("options", "streaming", "message"),
    [
        ({"kafka.sasl.password": "s3cret"}, None, "unknown option 'kafka.sasl.password'; known: aggregate"),
        (
            {"startingOfsets": "latest"},
            None,
            "unknown option 'startingOfsets'; did you mean startingOffsets?",
        ),
        ({"aggregate": ""}, None, "option aggregate is missing"),
        (
            {"topic": "letters"},
            None,
            "option topic: there is no 'letters'; one of commands, events, outcomes",
        ),
        ({"topic": "outcomes", "type": "Place"}, None, "option type: outcomes have columns of their own"),
        ({"startingOffsets": "7"}, None, "option startingOffsets: not offsets: '7'"),
        ({"startingOffsets": '{"0": -1}'}, None, "option startingOffsets: not offsets"),
        ({"startingOffsets": "latest", "since": "10m"}, None, "options startingOffsets and since: both set"),
        ({"since": "noon"}, None, "option since: not a time: 'noon'"),
        ({"splits": "0"}, None, "option splits: not a number from 1 on: '0'"),
        ({"until": "10m"}, True, "option until: a stream has no such option"),
        ({"maxRecordsPerBatch": "5"}, False, "option maxRecordsPerBatch: a batch has no such option"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], streaming: bool | None, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_options({"aggregate": "order", **options}, streaming)
    assert str(raised.value).startswith(message)
    assert "s3cret" not in str(raised.value)
