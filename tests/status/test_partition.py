"""The texts about a partition: its names, and remarks for an operator."""

from cqrs_cli.status.partition import idle_partitions
from tests.support.statuses import decided_partition, projected_partition, subscribed_partition


def test_partitions_have_names() -> None:
    assert [status.label for status in (decided_partition(1), subscribed_partition(2))] == [
        "bank 1",
        "checkout < order 2",
    ]
    assert projected_partition(3).label == "recent < order.events 3"
    assert [
        status.ready_key for status in (decided_partition(1), subscribed_partition(2), projected_partition(3))
    ] == [
        "bank:1",
        "checkout:order:2",
        "order:3",
    ]


def test_poison_detection_is_remarked_while_commands_wait() -> None:
    assert decided_partition(suspect_text="on trial", lag=1).remarks() == ["on trial"]
    assert decided_partition(suspect_text="on trial").remarks() == []


def test_stopped_process_names_the_skip_option() -> None:
    (remark,) = subscribed_partition(
        lag=3, suspect_text="tried", stopped_at=7, remedy_command="cqrs run --process checkout --skip …"
    ).remarks()
    assert remark.startswith("process checkout was stopped by order.events:0@7; correct it")
    assert remark.endswith("leave the event out: cqrs run --process checkout --skip …")


def test_idle_partitions_are_in_order() -> None:
    partitions = [
        subscribed_partition(1, idle_reason="no owner"),
        decided_partition(1, idle_reason="warm"),
        decided_partition(0),
        decided_partition(2, idle_reason="no owner"),
    ]
    assert list(idle_partitions(partitions).items()) == [
        ("bank:1", "warm"),
        ("bank:2", "no owner"),
        ("checkout:order:1", "no owner"),
    ]
