"""The driver's port for reports: any port, or a fixed port for a firewall."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.jobs.engine.driver_address import driver_address
from cqrs_cli.telemetry.datagrams import send_message
from cqrs_cli.telemetry.listener import REPORTS_PORT, DatagramListener
from tests.support.waiting import eventually

HOST = "127.0.0.1"


@pytest.fixture
def port() -> Iterator[int]:
    """A port that was free a moment ago, with some ports after it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((HOST, 0))
        free_port = min(probe.getsockname()[1], 65_000)
    yield free_port


def test_fixed_port_takes_reports(port: int) -> None:
    with DatagramListener(f"{HOST}:{port}") as notes:
        assert port <= notes.address.port < port + 16
        send_message(notes.address, "a note")
        assert eventually(notes.take_new_messages) == ["a note"]


def test_second_run_takes_a_later_port(port: int) -> None:
    with DatagramListener(f"{HOST}:{port}") as first, DatagramListener(f"{HOST}:{port}") as second:
        assert port <= first.address.port < second.address.port < port + 16


def test_taken_ports_are_refused(port: int) -> None:
    with ExitStack() as stack:
        for number in range(port, port + 16):
            taken_socket = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            with suppress(OSError):  # another program uses it
                taken_socket.bind(("", number))
        with pytest.raises(ConfigurationError, match=f"no UDP port from {port} to {port + 15} is free"):
            DatagramListener(f"{HOST}:{port}")


def context(**conf: str) -> Any:
    """Return Spark's context with these settings."""
    return SimpleNamespace(_conf={name.replace("_", "."): text for name, text in conf.items()})


def test_driver_address_has_the_fixed_port() -> None:
    assert driver_address(context()) == HOST
    assert (
        driver_address(context(spark_driver_host="driver", spark_cqrs_reports_port="7080")) == "driver:7080"
    )
    for text in ("0", "65536", "x", ""):
        with pytest.raises(UsageError, match=f"{REPORTS_PORT}={text}: that is not a port"):
            driver_address(context(spark_cqrs_reports_port=text))
