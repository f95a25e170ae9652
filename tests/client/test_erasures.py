"""The file of erasures: how it is written, and how it is read after a backup was restored."""

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from cqrs_cli.client.erasures import Erasure, ErasureFile, erase_command, repeated_erasures, require_personal
from cqrs_cli.errors import ConfigurationError, UsageError
from tests.core import tally
from tests.core.personal.customer import CUSTOMER


def printed(kind: str = "cqrs.Erased", subject: str = "c-2", key: str = "AAAAAAAAAAA") -> bytes:
    """Return an event as `cqrs tail -o json` prints it."""
    message = {"type": kind, "source": "/cqrs/customer", "subject": subject, "data": {"key": key}}
    return json.dumps(
        {"partition": 0, "offset": 7, "timestamp": 1, "key": subject, "message": message}
    ).encode()


def repeated(lines: Iterable[bytes]) -> list[tuple[str, object]]:
    """Return the ids and the data of the commands that repeat these erasures."""
    return [(one.subject, json.loads(one.value)["data"]) for one in repeated_erasures(lines)]


def test_lines_are_read_back(tmp_path: Path) -> None:
    kept = ErasureFile(tmp_path / "erasures.ndjson")
    assert kept.path.read_bytes() == b""
    command = erase_command("customer", "c-1")
    kept.append(Erasure.now(command, "AAAAAAAAAAA"))
    again = ErasureFile(kept.path)
    again.append(Erasure("customer", "ü\n", key="BBBBBBBBBBB"))
    first, second = map(json.loads, kept.path.read_text().splitlines())
    names = {"aggregate": "customer", "id": "c-1", "command": command.id, "key": "AAAAAAAAAAA"}
    assert first == {**names, "time": first["time"]} and first["time"].endswith("Z")
    assert second == {"aggregate": "customer", "id": "ü\n", "key": "BBBBBBBBBBB"}
    with kept.path.open("rb") as lines:
        assert repeated(lines) == [("c-1", {"key": "AAAAAAAAAAA"}), ("ü\n", {"key": "BBBBBBBBBBB"})]


@pytest.mark.parametrize(("key", "erased"), [("AAAAAAAAAAA", [("c-1", {"key": "AAAAAAAAAAA"})]), (None, [])])
def test_later_line_has_the_key(key: str | None, erased: list[object]) -> None:
    """The aggregate had no key when its command was sent."""
    command = erase_command("customer", "c-1")
    lines = [msgspec.json.encode(Erasure.now(command, one)) for one in (msgspec.UNSET, key)]
    assert repeated(lines) == erased


@pytest.mark.parametrize(
    "line", [b'{"aggregate":"customer","id":"c-1"}', b'{"aggregate":"customer","id":"c-1","command":"7"}']
)
def test_line_without_key_is_refused(line: bytes) -> None:
    """Without a key the command would also delete a later data key of the person."""
    with pytest.raises(UsageError, match=r"^line 2 has no key.*cqrs erase customer c-1"):
        repeated([printed(), line])


def test_files_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"erasures cannot be written: No such file .* --erasures FILE"
    ):
        ErasureFile(tmp_path / "nowhere" / "erasures")


def test_each_key_is_erased_once() -> None:
    lines = [printed(), b"\n", printed(key="BBBBBBBBBBB"), printed(subject="c-3"), printed()]
    assert repeated(lines) == [
        ("c-2", {"key": "AAAAAAAAAAA"}),
        ("c-2", {"key": "BBBBBBBBBBB"}),
        ("c-3", {"key": "AAAAAAAAAAA"}),
    ]


@pytest.mark.parametrize(
    "line", [b"[]", b"{", b"7", b"[" * 10_000, b'{"aggregate":"customer"}', printed("customer.Registered")]
)
def test_other_lines_are_named(line: bytes) -> None:
    with pytest.raises(UsageError, match=r"^line 2 is not an erasure"):
        repeated_erasures([printed(), line])


def test_commands_are_for_personal_aggregates() -> None:
    require_personal(CUSTOMER)
    with pytest.raises(UsageError, match="tally marks no field as personal: there is nothing to erase"):
        require_personal(tally.AGGREGATE)
    made = erase_command("customer", "c-1")
    told = json.loads(made.value)
    assert (made.type, told["subject"], told["data"], told["id"]) == ("cqrs.Erase", "c-1", {}, made.id)
