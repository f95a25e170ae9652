"""The file of erasures: how it is written, and how it is read after a backup was restored."""

import json
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from cqrs_cli.client.erasures import Erasure, ErasureFile, erase_command, repeated_erasures, require_personal
from cqrs_cli.errors import ConfigurationError, UsageError
from tests.core import tally
from tests.core.personal.customer import CUSTOMER


def tail_line(type: str = "cqrs.Erased", subject: str = "c-2", key: str = "AAAAAAAAAAA") -> bytes:
    """Return an event as `cqrs tail -o json` prints it."""
    message = {"type": type, "source": "/cqrs/customer", "subject": subject, "data": {"key": key}}
    return json.dumps(
        {"partition": 0, "offset": 7, "timestamp": 1, "key": subject, "message": message}
    ).encode()


def repeated_commands(lines: Iterable[bytes]) -> list[tuple[str, object]]:
    """Return the ids and the data of the commands that repeat these erasures."""
    return [(command.subject, json.loads(command.value)["data"]) for command in repeated_erasures(lines)]


def test_erasure_file_is_read_back(tmp_path: Path) -> None:
    erasure_file = ErasureFile(tmp_path / "erasures.ndjson")
    assert erasure_file.path.read_bytes() == b""
    command = erase_command("customer", "c-1")
    erasure_file.append(Erasure.now(command, "AAAAAAAAAAA"))
    reopened_file = ErasureFile(erasure_file.path)
    reopened_file.append(Erasure("customer", "ü\n", key="BBBBBBBBBBB"))
    first, second = map(json.loads, erasure_file.path.read_text().splitlines())
    names = {"aggregate": "customer", "id": "c-1", "command": command.id, "key": "AAAAAAAAAAA"}
    assert first == {**names, "time": first["time"]} and first["time"].endswith("Z")
    assert second == {"aggregate": "customer", "id": "ü\n", "key": "BBBBBBBBBBB"}
    with erasure_file.path.open("rb") as lines:
        assert repeated_commands(lines) == [("c-1", {"key": "AAAAAAAAAAA"}), ("ü\n", {"key": "BBBBBBBBBBB"})]


def test_erasure_file_is_private(tmp_path: Path) -> None:
    """The id of an erased person may be a name or an address."""
    file = ErasureFile(tmp_path / "erasures.ndjson").path
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("key", "commands"), [("AAAAAAAAAAA", [("c-1", {"key": "AAAAAAAAAAA"})]), (None, [])]
)
def test_later_line_may_add_the_key(key: str | None, commands: list[object]) -> None:
    """If the aggregate has no key at the time of the command, a later line adds it."""
    command = erase_command("customer", "c-1")
    lines = [msgspec.json.encode(Erasure.now(command, line_key)) for line_key in (msgspec.UNSET, key)]
    assert repeated_commands(lines) == commands


@pytest.mark.parametrize(
    "line", [b'{"aggregate":"customer","id":"c-1"}', b'{"aggregate":"customer","id":"c-1","command":"7"}']
)
def test_line_without_key_is_refused(line: bytes) -> None:
    """Without a key the command would also delete a later data key of the person."""
    with pytest.raises(UsageError, match=r"^line 2 has no key.*cqrs erase customer c-1"):
        repeated_commands([tail_line(), line])


def test_files_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"erasures cannot be written: No such file .* --erasures FILE"
    ):
        ErasureFile(tmp_path / "nowhere" / "erasures")


def test_each_key_is_erased_once() -> None:
    lines = [tail_line(), b"\n", tail_line(key="BBBBBBBBBBB"), tail_line(subject="c-3"), tail_line()]
    assert repeated_commands(lines) == [
        ("c-2", {"key": "AAAAAAAAAAA"}),
        ("c-2", {"key": "BBBBBBBBBBB"}),
        ("c-3", {"key": "AAAAAAAAAAA"}),
    ]


@pytest.mark.parametrize(
    "line", [b"[]", b"{", b"7", b"[" * 10_000, b'{"aggregate":"customer"}', tail_line("customer.Registered")]
)
def test_errors_name_the_line(line: bytes) -> None:
    with pytest.raises(UsageError, match=r"^line 2 is not an erasure"):
        repeated_erasures([tail_line(), line])


def test_commands_are_for_personal_aggregates() -> None:
    require_personal(CUSTOMER)
    with pytest.raises(UsageError, match="tally has no personal fields: there is nothing to erase"):
        require_personal(tally.AGGREGATE)
    command = erase_command("customer", "c-1")
    document = json.loads(command.value)
    assert (command.type, document["subject"], document["data"], document["id"]) == (
        "cqrs.Erase",
        "c-1",
        {},
        command.id,
    )
