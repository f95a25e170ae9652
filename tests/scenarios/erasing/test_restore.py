"""Kafka is restored from a backup older than an erasure: only the file of erasures knows of this erasure."""

import shutil
from pathlib import Path

import pytest

from tests.scenarios.erasing.shop import Shop
from tests.support.project import LOCAL_MASTER

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly]

NAME = "Ada Byron"

ERASED = {"status": "erased", "name": "", "mail": "nobody@invalid", "address": "", "country": "GB"}


def state(shop: Shop) -> object:
    return shop.json("show", "customer", "c-1")["state"]


def decide_commands(shop: Shop) -> None:
    shop.run_cqrs("run", "customer", "--once", *LOCAL_MASTER)


def copy_disk(shop: Shop, source: Path, target: Path) -> None:
    """Copy the broker's disk, or a backup of it, while the broker is down."""
    shop.broker.kill()
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    shop.broker.start()


def test_the_file_of_erasures_erases_again(shop: Shop, tmp_path: Path) -> None:
    shop.run_cqrs("send", "customer", "c-1", "Register", f"name={NAME}", "mail=ada@example.org", "country=GB")
    decide_commands(shop)
    copy_disk(shop, shop.disk, tmp_path / "backup")
    shop.run_cqrs("erase", "customer", "c-1", "--no-wait")
    decide_commands(shop)
    assert state(shop) == ERASED

    copy_disk(shop, tmp_path / "backup", shop.disk)
    shutil.rmtree(shop.folder / ".cqrs" / "state")  # the shards know of events that the backup has lost
    restored = state(shop)
    assert isinstance(restored, dict) and restored["name"] == NAME
    shop.run_cqrs("erase", "--file", "erasures.ndjson", "--no-wait")
    decide_commands(shop)
    assert state(shop) == ERASED
    assert "no violation" in shop.run_cqrs("verify", "customer", *LOCAL_MASTER)
