"""A standby notices that the files of its project have changed since it read them."""

from pathlib import Path

import pytest

from cqrs_cli.errors import CqrsError
from cqrs_cli.runs.source_files import SourceWatch


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    for name in ("cqrs.toml", "shop/order.py"):
        (tmp_path / name).touch()
    return tmp_path


def test_unchanged_files_are_no_error(root: Path) -> None:
    watch = SourceWatch(root, "shop", 0.0)
    (root / "shop" / "order.py").touch()
    (root / "erasures.ndjson").write_text("{}")
    watch.check_if_due()


@pytest.mark.parametrize("name", ["cqrs.toml", "shop/order.py", "shop/new.py", "processes/checkout.py"])
def test_changed_file_is_named(root: Path, name: str) -> None:
    watch = SourceWatch(root, "shop", 0.0)
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text("# changed")
    with pytest.raises(CqrsError, match=f"changed since this standby started: {name}") as raised:
        watch.check_if_due()
    assert raised.value.exit_code == 1


def test_deleted_file_is_named(root: Path) -> None:
    watch = SourceWatch(root, "shop", 0.0)
    (root / "shop" / "order.py").unlink()
    with pytest.raises(CqrsError, match=r"shop/order\.py"):
        watch.check_if_due()
