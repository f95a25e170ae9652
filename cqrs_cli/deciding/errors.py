"""Errors that name the reason why an owner cannot work, and the remedy."""

from collections.abc import Iterable

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import (
    ConfigurationError,
    ContradictionError,
    CqrsError,
    TakenOverError,
    UnavailableError,
)
from cqrs_cli.kafka.admin.clock import local_clock
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.admin.transactions import OpenTransaction
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.position_notation import format_position
from cqrs_cli.kafka.readers import StalledError
from cqrs_cli.kafka.topics.acls import denied_acls_error, required_acls
from cqrs_cli.kafka.topics.topics import Kind
from cqrs_cli.kafka.write_errors import BatchTimeError, TopicRecreatedError
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.open_transactions import explain_stall
from cqrs_cli.ownership.signals import UnwritableBatch


def explain_log_stall(
    log: PartitionLog, error: StalledError, keys_partition: int | None = None
) -> UnavailableError:
    """Return the error of `explain_stall` for the logs of a partition that its owner reads, and for its partition of
    the keys topic (`keys_partition`; None without personal fields). Owners of other partitions also write to that
    partition of the keys topic.
    """
    kinds: tuple[Kind, ...] = ("commands", "events", "outcomes", "deferred")
    log_partitions = [(log.topics.name(kind), log.partition) for kind in kinds]
    if keys_partition is not None:
        log_partitions.append((log.topics.keys, keys_partition))
    return explain_stall(log.connection, log_partitions, error)


def transactions_hiding_commands(
    connection: Connection, partitions: Iterable[tuple[str, int]]
) -> list[OpenTransaction]:
    """Return the open transactions of clients that hide commands in these (topic, partition) pairs. Young transactions
    (`OpenTransaction.is_young`) are left out.

    The list is empty if no broker answers, or if the user lacks the necessary ACL.
    """
    log_partitions = list(partitions)
    if not log_partitions:  # the console asks once a second, and a client costs a connection
        return []
    try:
        with Admin(connection) as admin:
            transactions = admin.all_open_transactions(log_partitions)
    except CqrsError:
        return []
    now = local_clock()
    return [transaction for transaction in transactions if not transaction.is_young(now)]


def explain_changed_code(aggregate: Aggregate) -> str:
    """Return the note about a shard that was folded with another `evolve`, although the revision is the same."""
    return (
        f"evolve of {aggregate.name} changed but not its revision: if its meaning changed, raise the revision, "
        f"Decider(…, revision={aggregate.decider.revision + 1}); check with: cqrs verify {aggregate.name} --state"
    )


def explain_denial(log: PartitionLog, personal: bool) -> CqrsError:
    """Return the error that ends a run whose user lacks an ACL. It names the ACL, which librdkafka's error may omit.

    `personal`: the aggregate has personal fields.
    """
    try:
        with Admin(log.connection) as admin:
            missing_acls = admin.missing_acls(required_acls("run", log.topics, personal))
    except CqrsError as error:
        return error
    if missing_acls:
        return denied_acls_error(missing_acls, "run")
    return ConfigurationError(
        f"the broker at {log.connection.bootstrap_server} does not allow cqrs run to use {log.topics.aggregate}",
        "an ACL has changed, or an ACL denies it: cqrs doctor --for run",
    )


def explain_takeover(later: Claim) -> CqrsError:
    """Return the error that ends a run when a later run has claimed its topics."""
    return TakenOverError(
        f"run {later.run} took over these topics",
        "leave that run active; start this run again only to take the topics back",
    )


def explain_recreated_topic(
    error: TopicRecreatedError, partition: tuple[str, int], position: int
) -> ContradictionError:
    """Return the error for a topic that was recreated while the owner of `partition`, (aggregate, number), wrote to it.
    `position`: the offset of the next command to decide.
    """
    name, number = partition
    return ContradictionError(
        f"{error} partition {number} was deleted and created again while it was written to",
        "find out why; to continue without its records: "
        f"cqrs run --accept-loss {format_position(number, position, name)}",
    )


def explain_undecidable(log: PartitionLog, error: UnwritableBatch) -> CqrsError:
    """Return the error that ends a run because no outcome can be written for a single record."""
    if isinstance(error.__cause__, BatchTimeError):
        return ConfigurationError(
            f"{log.log_name('commands')} offset {error.offset} cannot be decided: "
            f"a topic does not accept its timestamp ({error})",
            "cqrs doctor names the topic and how to set its message.timestamp.after.max.ms",
        )
    return CqrsError(
        f"{log.log_name('commands')} offset {error.offset} cannot be decided: {error}",
        "give that record a failed outcome and continue: "
        f"cqrs run --fail {format_position(log.partition, error.offset, log.topics.aggregate)}",
    )
