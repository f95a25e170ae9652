"""Scale: processor time of a command by partitions and workers, and the rate of a `decide` that waits, by tasks.

`cqrs run --once` decides a backlog on `local[WORKERS]`, with new topics for each row. A waiting task needs no core, so
two cores show whether sixteen tasks obstruct each other.
"""

import argparse
import itertools

from benchmarks.environment import (
    Environment,
    command_bytes,
    new_environment,
    new_id,
    open_accounts,
    send_deposits,
)
from benchmarks.report import report
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.kafka.topics.partitioner import producer_partition
from cqrs_cli.kafka.topics.topics import Topics

Row = dict[str, object]

#: Partitions and workers of the first table.
_SHAPES = ((4, 1), (4, 2), (4, 4), (8, 2), (16, 2), (32, 2), (32, 4))

#: The numbers of tasks of the second table, each task with a partition.
_TASKS = (1, 2, 4, 8, 16)

#: The aggregate of the second table, and the number of accounts in each partition.
_NAME, _ACCOUNTS = "waiting_account", 16


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--commands", type=int, default=400_000, help="of a row of the first table")
    options.add_argument("--waiting", type=int, default=20_000, help="of each task of the second table")
    options.add_argument("--accounts", type=int, default=20_000)
    options.add_argument("--runs", type=int, default=3, help="of each row, in turn with the others")
    options.add_argument("--only", choices=("work", "waiting"), help="one table alone")
    arguments = options.parse_args()
    with new_environment() as environment:
        if arguments.only != "waiting":
            _decide(environment, arguments, "warm.", 4, 2)  # the first round warms the broker's JVM
            rounds = range(arguments.runs)
            rows = [_decide(environment, arguments, f"r{n}.", *shape) for n in rounds for shape in _SHAPES]
            report("processor time of a command", rows)
        if arguments.only != "work":
            report("a decide that waits 1 ms", _measure_waiting(environment, arguments))


def _decide(
    environment: Environment, arguments: argparse.Namespace, prefix: str, partitions: int, workers: int
) -> Row:
    prefix = f"{prefix}{partitions}.{workers}."
    topics = environment.topics("bank_account", partitions, prefix)
    run = ("run", topics.aggregate, "--once", "--topic-prefix", prefix, "--master", f"local[{workers}]")
    open_accounts(environment, topics, arguments.accounts)
    environment.cqrs(*run)
    send_deposits(environment, topics, arguments.commands, arguments.accounts)
    broker_before = environment.broker_cpu()
    summary = environment.cqrs(*run)
    us_per_command = 1e6 / arguments.commands
    broker_us = (environment.broker_cpu() - broker_before) * us_per_command
    assert summary["accepted"] == arguments.commands, summary
    return {
        "what": f"{partitions} partitions, {workers} workers",
        "cpu_us_per_command": summary["cpu_seconds"] * us_per_command + broker_us,
        "owners_us": summary["cpu_seconds"] * us_per_command,
        "broker_us": broker_us,
        "commands_per_s": arguments.commands / summary["seconds"],
    }


def _measure_waiting(environment: Environment, arguments: argparse.Namespace) -> list[Row]:
    """Return a row for each number of tasks: the rate, and its ratio to the ideal, tasks × the rate of one task."""
    code = (environment.root / "aggregates" / "bank_account.py").read_text()
    match_line = "    match command:\n        case Close() if"
    assert code.count(match_line) == 1
    code = code.replace(match_line, f"    time.sleep(0.001)\n{match_line}").replace(
        "from typing", "import time\nfrom typing"
    )
    (environment.root / "aggregates" / f"{_NAME}.py").write_text(code)
    rows: list[Row] = []
    for number in range(arguments.runs):
        rates = {tasks: _rate(environment, arguments, f"w{number}.{tasks}.", tasks) for tasks in _TASKS}
        for tasks, rate in rates.items():
            share_of_ideal = rate / (tasks * rates[1])
            rows.append({"what": f"{tasks} tasks", "commands_per_s": rate, "of_the_ideal": share_of_ideal})
    return rows


def _rate(environment: Environment, arguments: argparse.Namespace, prefix: str, tasks: int) -> float:
    """Return the rate with one partition for each task, all equally full: the last task to end determines it."""
    topics = environment.topics(_NAME, tasks, prefix)
    run = ("run", _NAME, "--once", "--topic-prefix", prefix, "--master", f"local[{tasks}]")
    accounts = _accounts_of_each_partition(tasks)
    _send(environment, topics, "Open", '{"owner":"ann"}', accounts)
    environment.cqrs(*run)
    _send(environment, topics, "Deposit", '{"amount":5}', accounts * (arguments.waiting // _ACCOUNTS))
    summary = environment.cqrs(*run)
    return float(summary["commands"] / summary["seconds"])


def _accounts_of_each_partition(partitions: int) -> list[str]:
    """Return an equal number of accounts for each partition."""
    accounts_by_partition: dict[int, list[str]] = {partition: [] for partition in range(partitions)}
    for subject in map("acc-{}".format, itertools.count()):
        accounts = accounts_by_partition[producer_partition("murmur2", subject.encode(), partitions)]
        if len(accounts) < _ACCOUNTS:
            accounts.append(subject)
        elif all(len(accounts) == _ACCOUNTS for accounts in accounts_by_partition.values()):
            break
    return [subject for accounts in accounts_by_partition.values() for subject in accounts]


def _send(environment: Environment, topics: Topics, kind: str, data: str, subjects: list[str]) -> None:
    with CommandProducer(environment.connection, "murmur2", bulk=True, reports=False) as sender:
        for subject in subjects:
            command = command_bytes(kind, subject, data, new_id("uuid7"), _NAME)
            sender.send(topics.commands, subject.encode(), command)
        sender.flush()


if __name__ == "__main__":
    main()
