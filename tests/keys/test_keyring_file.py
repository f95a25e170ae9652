"""A keyring file is created once, and is rotated without losing a key."""

from pathlib import Path

import pytest

from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.keys.keyring import load_keyring
from cqrs_cli.keys.keyring_file import KEK_BYTES, create_keyring_file, free_name, rotate_keyring_file

FIRST_KEK, SECOND_KEK = bytes(range(64)), bytes(range(100, 164))
KEY = DataKey.of_random(bytes(range(72)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "keys.json"
    assert create_keyring_file(file, "2026-11", FIRST_KEK) == "2026-11"
    return file


def names(path: Path) -> tuple[str, ...]:
    return load_keyring(f"file:{path}").names


def test_only_its_owner_reads_a_keyring(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert names(path) == ("2026-11",)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_keyring_is_never_overwritten(path: Path) -> None:
    old_bytes = path.read_bytes()
    with pytest.raises(ConfigurationError, match="exists: it may contain a keyring"):
        create_keyring_file(path, "2026-12", SECOND_KEK)
    assert path.read_bytes() == old_bytes


def test_old_keys_unwrap_after_rotating(path: Path) -> None:
    wrapped = load_keyring(f"file:{path}").wrap("c.keys", "c-42", KEY)
    assert rotate_keyring_file(path, "2026-12", SECOND_KEK) == "2026-12"
    keyring = load_keyring(f"file:{path}")
    assert keyring.names == ("2026-12", "2026-11")
    assert keyring.current == "2026-12"
    assert keyring.unwrap("c.keys", "c-42", wrapped).secret == KEY.secret


def test_rotating_keeps_the_file_mode(path: Path) -> None:
    path.chmod(0o640)
    rotate_keyring_file(path, "2026-12", SECOND_KEK)
    assert path.stat().st_mode & 0o777 == 0o640


def test_rotating_follows_a_link(path: Path) -> None:
    link = path.parent / "link.json"
    link.symlink_to(path)
    rotate_keyring_file(link, "2026-12", SECOND_KEK)
    assert link.is_symlink()
    assert names(path) == ("2026-12", "2026-11")


def test_two_keks_in_a_month_differ(path: Path) -> None:
    assert rotate_keyring_file(path, "2026-11", SECOND_KEK) == "2026-11-2"
    assert free_name("2026-11", ["2026-11-2"]) == "2026-11"
    assert free_name("2026-11", ["2026-11", "2026-11-2"]) == "2026-11-3"


def test_failed_rotation_changes_nothing(path: Path) -> None:
    """It leaves no temporary files either."""
    old_bytes = path.read_bytes()
    with pytest.raises(ValueError, match="64 bytes, not 32"):
        rotate_keyring_file(path, "2026-12", SECOND_KEK[:32])
    assert path.read_bytes() == old_bytes
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_concurrent_rotation_is_refused(path: Path) -> None:
    """Of two concurrent rotations, one would lose the other's KEK, which may be in use already."""
    temporary_file = path.with_name(".keys.json.new")
    temporary_file.write_bytes(b"the other's")
    with pytest.raises(ConfigurationError, match=r"\.keys\.json\.new exists: another program"):
        rotate_keyring_file(path, "2026-12", SECOND_KEK)
    assert temporary_file.read_bytes() == b"the other's"


def test_only_a_keyring_is_rotated(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"cannot be read: No such file.*; create it: cqrs keys init"
    ):
        rotate_keyring_file(tmp_path / "none.json", "2026-12", SECOND_KEK)
    (tmp_path / "other.json").write_text('{"secret": "secret"}')
    with pytest.raises(ConfigurationError, match="does not contain a keyring") as error:
        rotate_keyring_file(tmp_path / "other.json", "2026-12", SECOND_KEK)
    assert "secret" not in str(error.value)


def test_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written: No such file"):
        create_keyring_file(tmp_path / "nowhere" / "keys.json", "2026-11", FIRST_KEK)


def test_keks_have_64_bytes(tmp_path: Path) -> None:
    assert KEK_BYTES == 64
    with pytest.raises(ValueError, match="64 bytes, not 32"):
        create_keyring_file(tmp_path / "keys.json", "2026-11", FIRST_KEK[:32])
    assert list(tmp_path.iterdir()) == []
