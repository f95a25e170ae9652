"""The driver's receiver of reports: the latest report of each partition, only from the run's own owners."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport, encode_report
from cqrs_cli.runs.reports import Reports, ReportSilence
from cqrs_cli.telemetry.datagrams import END, DatagramSender, send_message, signed_datagram
from tests.support.idle_thread import IdleThread
from tests.support.waiting import eventually

PARTITION = Partition("counter", 0)


@pytest.fixture
def reports() -> Iterator[Reports]:
    with Reports("127.0.0.1") as listener:
        yield listener


def send(reports: Reports, *owner_reports: OwnerReport) -> None:
    """Send reports, and wait until a final extra report has arrived."""
    sender = DatagramSender(reports.address)
    for report in (*owner_reports, OwnerReport("last", len(owner_reports), 0, 0, os.getpid(), "ended")):
        sender.send_body(encode_report(report))
    sender.close()
    eventually(lambda: Partition("last", len(owner_reports)) in reports.latest_reports())


def test_latest_report_counts(reports: Reports) -> None:
    """Datagrams may overtake each other."""
    send(
        reports,
        OwnerReport("counter", 0, 1, 0, 1, "recover"),
        OwnerReport("counter", 0, 1, 0, 3, "decide"),
        OwnerReport("counter", 0, 1, 0, 2, "recover"),
        OwnerReport("counter", 0, 0, 9, 9, "ended"),
    )
    assert reports.latest_reports()[PARTITION].step == "decide"


def test_unsigned_reports_are_ignored(reports: Reports) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"x" * 100, (reports.address.host, reports.address.port))
        stranger.sendto(b"", (reports.address.host, reports.address.port))
    send(reports, OwnerReport("counter", 0, 0, 0, 1, "decide"))
    assert reports.latest_reports()[PARTITION].step == "decide"


def test_closing_wakes_the_listener() -> None:
    """Closing waits neither for a report nor for the timeout of the socket."""
    reports = Reports("127.0.0.1")
    reports._socket.settimeout(60)
    with reports:
        send(reports, OwnerReport("counter", 0, 0, 0, 1, "decide"))  # from now on it waits for 60 s
        thread = reports._thread
        closing = threading.Thread(target=reports.__exit__)
        closing.start()
        closing.join(30)
        assert not thread.is_alive()


def test_tasks_are_told_to_end(reports: Reports) -> None:
    """The driver answers earlier reports, and each later report: a datagram may be lost."""
    early, late = (DatagramSender(reports.address) for _ in range(2))
    early.send_body(b"")
    send(reports)
    assert not early.received_end()
    reports.end_tasks()
    eventually(early.received_end)
    late.send_body(b"")
    eventually(late.received_end)
    for sender in (early, late):
        sender.close()


def test_task_without_reports_is_told_to_end(reports: Reports) -> None:
    """A process manager reports only notes."""
    thread = IdleThread()
    thread.sender = DatagramSender(reports.address)
    reports.end_tasks()

    def received_end() -> bool:
        thread.send_reports()
        return thread.received_end()

    eventually(received_end)
    thread.close_sender()


def test_unsigned_end_is_ignored(reports: Reports) -> None:
    sender = DatagramSender(reports.address)
    sender.send_body(b"")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for datagram in (b"", END, b"x" * 100, signed_datagram(END, b"o" * 32)):
            stranger.sendto(datagram, ("127.0.0.1", sender._socket.getsockname()[1]))
    assert not sender.received_end()
    sender.close()


@pytest.mark.covers("no-foreign-code")
def test_local_runs_listen_on_loopback_only(reports: Reports) -> None:
    table = Path("/proc/net/udp").read_text().splitlines()[1:]
    addresses = [line.split()[1].split(":") for line in table]
    hosts = {host for host, port in addresses if int(port, 16) == reports.address.port}
    assert {socket.inet_ntoa(bytes.fromhex(host)[::-1]) for host in hosts} == {"127.0.0.1"}


def test_process_notes_are_returned_once(reports: Reports) -> None:
    """The notes are reported while the process managers work, and not again at their end."""
    for _ in range(2):
        send_message(reports.address, "process checkout waits")
    send_message(None, "without an address")
    send(reports)
    assert reports.take_new_messages() == ["process checkout waits"]
    assert reports.take_new_messages() == []
    reports.add_message("process checkout waits")
    assert reports.take_new_messages() == []


def test_silence_is_counted_by_polls() -> None:
    """A pause of the driver counts for two seconds. A report ends the silence, and an owner that has ended is silent
    for no time.
    """
    now = 0.0
    silence = ReportSilence(lambda: now)

    def silence_after(seconds: float, number: int, step: str = "decide") -> float:
        nonlocal now
        now += seconds
        return silence.observe({PARTITION: OwnerReport("counter", 0, 0, 0, number, step)})[PARTITION]

    assert [silence_after(1, 1), silence_after(1, 1), silence_after(600, 1)] == [0.0, 1.0, 3.0]
    assert [
        silence_after(1, 2),
        silence_after(1, 2),
        silence_after(1, 3, "ended"),
        silence_after(1, 3, "ended"),
    ] == [0.0, 1.0, 0.0, 0.0]
