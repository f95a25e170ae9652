"""The description of an open transaction, and the time from which it counts as hanging."""

from cqrs_cli.kafka.admin.transactions import GRACE_MS, OpenTransaction
from cqrs_cli.kafka.connection.cluster import Cluster

OPEN = OpenTransaction(
    topic="bank.events",
    partition=3,
    first_offset=17,
    producer_id=1001,
    producer_epoch=2,
    began_at=1_795_222_800_000,
    transactional_id="cqrs.bank.events.3",
    timeout_ms=20_000,
)
ORPHANED = OpenTransaction("bank.events", 3, 17, 1001, 2, began_at=1_795_222_800_000)


def test_text_names_producer_and_start() -> None:
    assert str(OPEN) == "open transaction cqrs.bank.events.3 (producer id 1001) since 2026-11-21T01:00:00Z"
    assert str(ORPHANED).startswith("open transaction of an unknown id (producer id 1001)")


def test_transaction_past_its_timeout_hangs() -> None:
    assert not OPEN.hangs(OPEN.began_at + 20_000 + GRACE_MS)
    assert OPEN.hangs(OPEN.began_at + 20_001 + GRACE_MS)


def test_transaction_without_coordinator_hangs() -> None:
    assert ORPHANED.hangs(ORPHANED.began_at)


def test_abort_command_is_kafkas_own() -> None:
    options = "abort --topic bank.events --partition 3 --start-offset 17"
    assert OPEN.abort_command(Cluster("h:1")) == f"kafka-transactions.sh --bootstrap-server h:1 {options}"
    assert OPEN.abort_command(Cluster("h:1", {"security.protocol": "SASL_SSL"})) == (
        f"kafka-transactions.sh --bootstrap-server h:1 --command-config FILE {options}"
    )
