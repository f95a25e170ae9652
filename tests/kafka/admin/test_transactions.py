"""What is said of an open transaction, and when it counts as hanging."""

from cqrs_cli.kafka.admin.transactions import GRACE_MS, OpenTransaction

OPEN = OpenTransaction(
    topic="bank.events",
    partition=3,
    first_offset=17,
    producer_id=1001,
    producer_epoch=2,
    since=1_795_222_800_000,
    transactional_id="cqrs.bank.events.3",
    timeout_ms=20_000,
)
ORPHANED = OpenTransaction("bank.events", 3, 17, 1001, 2, since=1_795_222_800_000)


def test_it_says_whose_it_is_and_since_when() -> None:
    assert str(OPEN) == "open transaction cqrs.bank.events.3 (producer id 1001) since 2026-11-21T01:00:00Z"
    assert str(ORPHANED).startswith("open transaction of an unknown id (producer id 1001)")


def test_it_hangs_once_its_coordinator_should_have_ended_it() -> None:
    assert not OPEN.hangs(OPEN.since + 20_000 + GRACE_MS)
    assert OPEN.hangs(OPEN.since + 20_001 + GRACE_MS)


def test_it_hangs_at_once_if_no_coordinator_knows_it() -> None:
    assert ORPHANED.hangs(ORPHANED.since)


def test_the_command_that_ends_it_is_kafkas() -> None:
    assert OPEN.how_to_abort("h:1") == (
        "kafka-transactions.sh --bootstrap-server h:1 abort --topic bank.events --partition 3 --start-offset 17"
    )
