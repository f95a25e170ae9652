"""Compare the gateway with a client that waits for each outcome before it sends the next command; measure reads.

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
from benchmarks.environment import Environment, command, cpu_seconds, new_environment, open_accounts
from benchmarks.latency import running_decider
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
    options.add_argument(
        "--hostile", action="store_true", help="attack the gateway instead: benchmarks/abuse.py"
    )
    arguments = options.parse_args()
    if arguments.hostile:
        _attack()
    else:
        _measure(arguments)


def _measure(arguments: argparse.Namespace) -> None:
    """Measure and report."""
    rows: list[dict[str, object]] = []
    with new_environment() as environment, ExitStack() as stack:
        topics = environment.topics("bank_account", 4)
        open_accounts(environment, topics, ACCOUNTS)
        stack.enter_context(running_decider(environment, topics, 4))
        server, port = stack.enter_context(_serving(environment))
        client = stack.enter_context(
            Client(Path(__file__).parents[1], bootstrap_server=environment.connection.bootstrap_server)
        )
        send_by_client = _client_sender(client)
        _measure_sends(send_by_client, 50), _measure_sends(_http_sender(port), 50)
        for run in range(2 * arguments.runs):
            slow_count = arguments.slow if run >= arguments.runs else 0
            with ExitStack() as slow_clients:
                for _ in range(slow_count):
                    slow_clients.enter_context(_slow_client(port))
                suffix = f", {slow_count} slow clients" if slow_count else ""
                rows += [
                    {"what": f"client{suffix}", **_measure_sends(send_by_client, arguments.commands)},
                    {"what": f"POST{suffix}", **_measure_sends(_http_sender(port), arguments.commands)},
                    {
                        "what": f"GET{suffix}",
                        "per core second": _measure_reads(server, port, arguments.reads),
                    },
                ]
    report("gateway: ms from command to outcome, one at a time; reads", rows)


def _attack() -> None:
    """Attack a gateway and report."""
    with new_environment() as environment:
        abuse.fill(environment)
        with _serving(environment) as (server, port):
            rows = abuse.attack_all(server, port)
    report("gateway under attack", rows)


@contextmanager
def _serving(environment: Environment) -> Iterator[tuple[int, int]]:
    """Run a gateway; yield its process id and port."""
    gateway_command = command(
        "serve", "bank_account", "--port", "0", "-b", environment.connection.bootstrap_server
    )
    with subprocess.Popen(
        gateway_command, cwd=environment.root, stderr=subprocess.PIPE, text=True
    ) as gateway:
        try:
            assert gateway.stderr is not None
            match = re.search(r"http://127\.0\.0\.1:(\d+)", gateway.stderr.readline())
            assert match is not None
            yield gateway.pid, int(match[1])
        finally:
            gateway.terminate()


def _client_sender(client: Client) -> Callable[[int], bool]:
    return lambda number: client.send(f"acc-{number % ACCOUNTS}", Deposit(5)).wait().ok


def _http_sender(port: int) -> Callable[[int], bool]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(number: int) -> bool:
        path, headers = f"/bank_account/acc-{number % ACCOUNTS}/Deposit", {"Content-Type": "application/json"}
        connection.request("POST", path, b'{"amount":5}', headers)
        response = connection.getresponse()
        response.read()
        return response.status == 200

    return post


def _measure_sends(send: Callable[[int], bool], count: int) -> dict[str, float]:
    milliseconds = []
    for number in range(count):
        start = time.perf_counter()
        assert send(number)
        milliseconds.append(1000 * (time.perf_counter() - start))
    quantiles = statistics.quantiles(milliseconds, n=100)
    return {"p50": quantiles[49], "p90": quantiles[89], "p99": quantiles[98]}


def _measure_reads(server: int, port: int, count: int) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    cpu_before = cpu_seconds(server)
    for number in range(count):
        connection.request("GET", f"/bank_account/acc-{number % ACCOUNTS}")
        response = connection.getresponse()
        assert response.status == 200 and response.read()
    return count / (cpu_seconds(server) - cpu_before)


@contextmanager
def _slow_client(port: int) -> Iterator[None]:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = "GET /bank_account?from=beginning HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
        connection.sendall(request.encode())
        yield


if __name__ == "__main__":
    main()
