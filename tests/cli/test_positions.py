from pathlib import Path

import pytest

from cqrs_cli.cli.positions import positions_file, read_positions
from cqrs_cli.errors import UsageError
from cqrs_cli.proof.certificate import Certificate, LogCertificate, TopicCertificate, write_certificate
from tests.cli.conftest import Cqrs


def test_positions_come_from_files(tmp_path: Path) -> None:
    file = tmp_path / "positions.json"
    file.write_text('{"0": 12, "1": 0}')
    assert read_positions("--at", f"@{file}", "a.events") == {0: 12, 1: 0}
    logs = [LogCertificate(0, 7, []), LogCertificate(0, 9, [])]
    certificate = Certificate(
        aggregate="a", cluster="c", made="then", topics={"a.events": TopicCertificate("id", logs)}
    )
    file.write_bytes(write_certificate(certificate))
    assert read_positions("--at", f"@{file}", "a.events") == {0: 7, 1: 9}
    with pytest.raises(UsageError, match=r"has no offsets of b\.events"):
        read_positions("--at", f"@{file}", "b.events")
    assert [read_positions("--at", text, "a.events") for text in (None, "7", "2h")] == [None] * 3


def test_offsets_are_of_one_aggregate(tmp_path: Path) -> None:
    """A file without a topic must not be used for two topics."""
    (tmp_path / "file").write_text('{"0": 12}')
    file = positions_file("--at", f"@{tmp_path / 'file'}")
    assert file is not None
    assert file.offsets_of("a.events") == file.offsets_of("a.events") == {0: 12}
    with pytest.raises(UsageError, match=r"names no topic, and its offsets were already used for a\.events"):
        file.offsets_of("b.events")


@pytest.mark.parametrize(
    "text", ["", "[1]", "{}", '{"0": -1}', '{"0": true}', '{"a": 1}', '{"topics": 1}', "[" * 9999]
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(UsageError, match=r"--at: .*/file has no offsets of a\.events; write an offset"):
        read_positions("--at", f"@{tmp_path / 'file'}", "a.events")


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "bank_account", "--at"),
        ("show", "bank_account", "a", "--at"),
        ("sql", "SELECT 1", "--at"),
    ],
)
def test_a_missing_file_ends_with_2(cqrs: Cqrs, arguments: tuple[str, ...]) -> None:
    result = cqrs(*arguments, "@nowhere")
    assert (result.status, result.out) == (2, "")
    assert f"{arguments[-1]}: cannot read nowhere" in result.err
