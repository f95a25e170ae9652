"""The gateway compared with a client: commands with their outcomes, one at a time, and reads.

Reads are given per second of the gateway's own processor time: the rate of one core. The slow clients request events
from the beginning, and never read.
"""

import argparse
import http.client
import re
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from aggregates.bank_account import Deposit
from benchmarks import abuse
from benchmarks.environment import Arena, arena, command, cpu_seconds, open_accounts
from benchmarks.latency import deciding
from benchmarks.report import report
from cqrs_cli import Client

ACCOUNTS = 1000


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--commands", type=int, default=500)
    options.add_argument("--reads", type=int, default=10_000)
    options.add_argument("--slow", type=int, default=500, help="clients that do not read")
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--hostile", action="store_true", help="attack it instead: benchmarks/abuse.py")
    arguments = options.parse_args()
    if arguments.hostile:
        _attack()
    else:
        _measure(arguments)


def _measure(arguments: argparse.Namespace) -> None:
    """Measure and report."""
    rows: list[dict[str, object]] = []
    with arena() as environment, ExitStack() as stack:
        topics = environment.topics("bank_account", 4)
        open_accounts(environment, topics, ACCOUNTS)
        stack.enter_context(deciding(environment, topics, 4))
        server, port = stack.enter_context(_serving(environment))
        client = stack.enter_context(
            Client(Path(__file__).parents[1], bootstrap_server=environment.connection.bootstrap_server)
        )
        direct = _sender(client)
        _times(direct, 50), _times(_poster(port), 50)
        for run in range(2 * arguments.runs):
            slow = arguments.slow if run >= arguments.runs else 0
            with ExitStack() as crowd:
                for _ in range(slow):
                    crowd.enter_context(_slow_client(port))
                suffix = f", {slow} slow clients" if slow else ""
                rows += [
                    {"what": f"client{suffix}", **_times(direct, arguments.commands)},
                    {"what": f"POST{suffix}", **_times(_poster(port), arguments.commands)},
                    {"what": f"GET{suffix}", "per core second": _reads(server, port, arguments.reads)},
                ]
    report("gateway: ms from command to outcome, one at a time; reads", rows)


def _attack() -> None:
    """Attack a gateway and report."""
    with arena() as environment:
        abuse.fill(environment)
        with _serving(environment) as (server, port):
            rows = abuse.attack_all(server, port)
    report("gateway under attack", rows)


@contextmanager
def _serving(environment: Arena) -> Iterator[tuple[int, int]]:
    """Run a gateway; yield its process id and port."""
    call = command("serve", "bank_account", "--port", "0", "-b", environment.connection.bootstrap_server)
    with subprocess.Popen(call, cwd=environment.root, stderr=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stderr is not None
            match = re.search(r"http://127\.0\.0\.1:(\d+)", serving.stderr.readline())
            assert match is not None
            yield serving.pid, int(match[1])
        finally:
            serving.terminate()


def _sender(client: Client) -> Callable[[int], bool]:
    return lambda number: client.send(f"acc-{number % ACCOUNTS}", Deposit(5)).wait().ok


def _poster(port: int) -> Callable[[int], bool]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(number: int) -> bool:
        path, headers = f"/bank_account/acc-{number % ACCOUNTS}/Deposit", {"Content-Type": "application/json"}
        connection.request("POST", path, b'{"amount":5}', headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200

    return post


def _times(send: Callable[[int], bool], count: int) -> dict[str, float]:
    seconds = []
    for number in range(count):
        began = time.perf_counter()
        assert send(number)
        seconds.append(1000 * (time.perf_counter() - began))
    quantiles = statistics.quantiles(seconds, n=100)
    return {"p50": quantiles[49], "p90": quantiles[89], "p99": quantiles[98]}


def _reads(server: int, port: int, count: int) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    began = cpu_seconds(server)
    for number in range(count):
        connection.request("GET", f"/bank_account/acc-{number % ACCOUNTS}")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read()
    return count / (cpu_seconds(server) - began)


@contextmanager
def _slow_client(port: int) -> Iterator[None]:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = "GET /bank_account?from=beginning HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
        connection.sendall(request.encode())
        yield


if __name__ == "__main__":
    main()
