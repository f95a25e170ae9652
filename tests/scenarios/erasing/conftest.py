"""A shop for each test."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.kafka.topics.topics import KINDS
from tests.scenarios.erasing.shop import Shop
from tests.support import ROOT
from tests.support.brokers import broker
from tests.support.topic_settings import configure_topic

SETTINGS = """
aggregates = "customers"
keyring = "file:keys.json"
payload_store = "payloads"
payload_threshold = "2KiB"
checkpoint_location = "checkpoints"
checkpoint_every = "1s"
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop with two empty partitions. The broker does not compress, so its disk contains the bytes as sent."""
    ignored = shutil.ignore_patterns("__pycache__")
    folder = Path(shutil.copytree(ROOT / "examples/customers", tmp_path / "shop", ignore=ignored))
    (folder / "cqrs.toml").write_text(SETTINGS)
    (folder / "payloads").mkdir()
    with broker(tmp_path / "broker") as running_broker:
        shop = Shop(folder, running_broker, tmp_path / "broker")
        shop.run_cqrs("keys", "init")
        shop.run_cqrs("init", "customer", "--partitions", "2")
        for kind in (*KINDS, "keys"):
            configure_topic(shop.connection, f"customer.{kind}", {"compression.type": "uncompressed"})
        yield shop
