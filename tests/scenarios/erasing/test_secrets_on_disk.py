"""Secrets pass through every CLI command, and owners are killed: only the disks that the docs name contain them.

docs/personal.md has the table. Commands and dead letters hold the senders' records until their retention is over. cqrs
encrypts all other records, and their values cannot be decrypted once the key is deleted.
"""

import re
import secrets
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from cqrs_cli.failpoints import VARIABLE
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.topics.topics import UNENCRYPTED_KINDS
from cqrs_cli.keys.topic import COMPACTION_TICK
from tests.scenarios.erasing.shop import Shop
from tests.support.project import LOCAL_MASTER
from tests.support.topic_settings import configure_topic
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly]

#: These commands show the senders' records.
SENDER_RECORD_COMMANDS = [("tail", "customer", "dead-letters"), ("trace", "c-1", "--since", "2026-01-01")]

#: These commands show the records that cqrs wrote.
READING_COMMANDS = [
    ("show", "customer", "c-1", "--history"),
    ("tail", "customer", "events"),
    ("tail", "customer", "outcomes"),
    ("status", "customer", "--digest"),
    ("deferred", "list", "customer"),
    ("dead-letters", "list", "customer"),
    ("describe", "customer"),
    ("keys", "status", "customer"),
    ("verify", "customer", *LOCAL_MASTER),
    ("project", "mailing_list", "--once"),
]

#: These commands write files.
WRITING_COMMANDS = [
    ("replay", "customer", "--out", "replayed", *LOCAL_MASTER),
    ("export", "customer", "--out", "exported", *LOCAL_MASTER),
    ("certificate", "customer", "--out", "certificate", *LOCAL_MASTER),
]


def send_customers(shop: Shop, numbers: range, **attributes: str) -> None:
    """Send the commands of some customers.

    The address is a payload; some mails are invalid; one command has an extra field.
    """
    lines = []
    for number in numbers:
        prefix = "@" if number % 4 else ""
        register = {
            "name": shop.new_personal_text(),
            "mail": f"{shop.new_personal_text()}{prefix}x",
            "country": "GB",
        }
        move = {"address": shop.new_personal_text() * 200, "country": "IE"}
        invalid_move = {**move, "nothing": shop.new_personal_text()}
        for name, data in (("Register", register), ("Move", move), ("Move", invalid_move)):
            lines.append({"type": f"customer.{name}", "subject": f"c-{number}", "data": data, **attributes})
    shop.send_unchecked(lines)
    shop.plain_payloads |= shop.files_with_personal_text(shop.folder / "payloads")


def run_with_worker_killed(shop: Shop, point: str) -> None:
    """Run once with a worker that is killed at `point`. The run ends without help."""
    reached = shop.folder.parent / secrets.token_hex(4)
    variable = {VARIABLE: f"{point}:1:kill@{reached}"}
    with shop.running("run", "customer", "--once", *LOCAL_MASTER, **variable) as run:
        _, err = run.communicate(timeout=180)
    assert reached.exists() and run.returncode == 0, err
    shop.stderr += err


def leaking_files(shop: Shop) -> set[str]:
    """Return the files that contain a personal text but must not. Files with the senders' records are excluded."""
    findings = shop.files_with_personal_text(shop.folder, shop.disk) - shop.plain_payloads
    return {path for path in findings if not any(f"/customer.{kind}-" in path for kind in UNENCRYPTED_KINDS)}


def wrapped_keys(shop: Shop) -> set[bytes]:
    """Return the wrapped keys on the broker's disk."""
    keys: set[bytes] = set()
    for path in shop.disk.rglob("customer.keys-*/*.log"):
        with suppress(FileNotFoundError):  # compaction has deleted the segment
            keys |= set(re.findall(rb'"key":"([^"]+)"', path.read_bytes()))
    return keys


def await_compaction(shop: Shop, keys: set[bytes]) -> None:
    """Wait until compaction has removed the wrapped keys from the disk.

    Compaction ticks, which owners append every hour, make the broker close its segments.
    """
    configure_topic(shop.connection, "customer.keys", {"segment.ms": "100", "max.compaction.lag.ms": "1"})
    producer, (value, key) = clients.producer(shop.connection), COMPACTION_TICK

    def is_compacted() -> bool:
        for partition in range(2):
            producer.produce("customer.keys", value, key, partition)
        producer.flush()
        return not wrapped_keys(shop) & keys

    eventually(is_compacted, within=180)


def test_no_disk_contains_erased_values(shop: Shop) -> None:
    send_customers(shop, range(4))
    send_customers(shop, range(4, 6), notbefore="2999-01-01T00:00:00Z")
    run_with_worker_killed(shop, "commit.after")
    send_customers(shop, range(2, 4))
    run_with_worker_killed(shop, "apply.inside")
    for arguments in (*SENDER_RECORD_COMMANDS, *READING_COMMANDS, *WRITING_COMMANDS):
        shop.run_cqrs(*arguments)
    assert leaking_files(shop) == {str(shop.folder / "projections.db")} and shop.customer_count() == 3
    digest_before = shop.json("replay", "customer", *LOCAL_MASTER)["digest"]
    time_before_erasure = datetime.now(UTC).isoformat()
    keys = wrapped_keys(shop)
    assert len(keys) == 5  # no command of c-0 was ever accepted

    for number in range(6):
        shop.run_cqrs("erase", "customer", f"c-{number}", "--no-wait")
    run_with_worker_killed(shop, "commit.after")
    for arguments in READING_COMMANDS:
        output = shop.run_cqrs(*arguments)
        assert not any(text in output for text in shop.personal_texts), arguments
    assert shop.customer_count() == 0
    assert "no violation" in shop.run_cqrs("verify", "customer", "--erased", "--scan-path", "projections.db")
    assert leaking_files(shop) == set()
    assert not any(text in shop.stderr for text in shop.personal_texts)
    assert (
        shop.json("replay", "customer", "--at", time_before_erasure, *LOCAL_MASTER)["digest"] == digest_before
    )
    await_compaction(shop, keys)
