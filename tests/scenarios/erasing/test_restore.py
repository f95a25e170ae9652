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


def decide(shop: Shop) -> None:
    shop.look("run", "customer", "--once", *LOCAL_MASTER)


def copied(shop: Shop, source: Path, target: Path) -> None:
    """Copy the broker's disk, or a backup of it, while the broker is down."""
    shop.broker.kill()
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    shop.broker.start()


def test_the_file_of_erasures_erases_again(shop: Shop, tmp_path: Path) -> None:
    shop.look("send", "customer", "c-1", "Register", f"name={NAME}", "mail=ada@example.org", "country=GB")
    decide(shop)
    copied(shop, shop.disk, tmp_path / "backup")
    shop.look("erase", "customer", "c-1", "--no-wait")
    decide(shop)
    assert state(shop) == ERASED

    copied(shop, tmp_path / "backup", shop.disk)
    shutil.rmtree(shop.folder / ".cqrs" / "state")  # the shards know of events that the backup has lost
    restored = state(shop)
    assert isinstance(restored, dict) and restored["name"] == NAME
    shop.look("erase", "--file", "erasures.ndjson", "--no-wait")
    decide(shop)
    assert state(shop) == ERASED
    assert "no violation" in shop.look("verify", "customer", *LOCAL_MASTER)
