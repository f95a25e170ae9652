"""The file of erasures: how it is written, and how it is read after a backup was restored."""

import json
from pathlib import Path

import pytest

from cqrs_cli.client.erasures import Erasure, ErasureFile, erase_command, read_erasures, require_personal
from cqrs_cli.errors import ConfigurationError, UsageError
from tests.core import tally
from tests.core.personal.customer import CUSTOMER


def printed(kind: str = "cqrs.Erased", subject: str = "c-2") -> bytes:
    """Return an event as `cqrs tail -o json` prints it."""
    message = {"type": kind, "source": "/cqrs/customer", "subject": subject, "data": {"key": "AAAAAAAAAAA"}}
    return json.dumps(
        {"partition": 0, "offset": 7, "timestamp": 1, "key": subject, "message": message}
    ).encode()


def test_lines_are_read_back(tmp_path: Path) -> None:
    kept = ErasureFile(tmp_path / "erasures.ndjson")
    assert kept.path.read_bytes() == b""
    for one in (Erasure.now("customer", "c-1", "AAAAAAAAAAA"), Erasure.now("customer", "c-2")):
        kept.append(one)
    again = ErasureFile(kept.path)
    again.append(Erasure("customer", "ü\n"))
    first, second, third = map(json.loads, kept.path.read_text().splitlines())
    assert first == {"aggregate": "customer", "id": "c-1", "time": first["time"], "key": "AAAAAAAAAAA"}
    assert first["time"].endswith("Z") and second.keys() == {"aggregate", "id", "time"}
    assert third == {"aggregate": "customer", "id": "ü\n"}
    with kept.path.open("rb") as lines:
        assert [one.id for one in read_erasures(lines)] == ["c-1", "c-2", "ü\n"]


def test_files_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"erasures cannot be written: No such file .* --erasures FILE"
    ):
        ErasureFile(tmp_path / "nowhere" / "erasures")


def test_each_aggregate_is_erased_once() -> None:
    lines = [b'{"aggregate":"customer","id":"c-2"}', b"\n", printed(), printed(subject="c-3"), printed()]
    assert [(one.aggregate, one.id) for one in read_erasures(lines)] == [
        ("customer", "c-2"),
        ("customer", "c-3"),
    ]


@pytest.mark.parametrize(
    "line", [b"[]", b"{", b"7", b"[" * 10_000, b'{"aggregate":"customer"}', printed("customer.Registered")]
)
def test_other_lines_are_named(line: bytes) -> None:
    with pytest.raises(UsageError, match=r"^line 2 is not an erasure"):
        list(read_erasures([printed(), line]))


def test_commands_are_for_personal_aggregates() -> None:
    require_personal(CUSTOMER)
    with pytest.raises(UsageError, match="tally marks no field as personal: there is nothing to erase"):
        require_personal(tally.AGGREGATE)
    made = erase_command("customer", "c-1")
    told = json.loads(made.value)
    assert (made.type, told["subject"], told["data"], told["id"]) == ("cqrs.Erase", "c-1", {}, made.id)
