"""Reports are read as they were sent, and only by the driver for which they are meant."""

import socket

from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.measures import FoldProgress, Measures
from cqrs_cli.deciding.report import (
    OwnerReport,
    compose_report,
    decode_report,
    encode_report,
)
from cqrs_cli.telemetry.datagrams import Address, DatagramSender, signed_body, signed_datagram

KEY, OTHER_KEY = b"k" * 32, b"o" * 32


def report() -> OwnerReport:
    measures = Measures()
    measures.enter_step("recover")
    measures.fold_from((10, 40), (5, 25))
    measures.record_folded(25, 10)
    measures.record_commit([Record(0, 0), Record(1, 990)], 1000, {"EXPIRED": 2})
    return compose_report(("counter", 3), (1, 2, 7), measures, 4096)


def test_report_contains_the_measurements() -> None:
    body = signed_body(signed_datagram(encode_report(report()), KEY), KEY)
    read = decode_report(body or b"")
    assert read is not None and read == report()
    assert (read.aggregate, read.partition, read.order, read.step) == ("counter", 3, (1, 2, 7), "recover")
    assert read.folding == FoldProgress(30, 20, 50)
    assert (sum(read.latency[0]), read.latency[1]) == (2, 1.01)
    assert (read.batches[1], read.reasons, read.shard_bytes) == (2, {"EXPIRED": 2}, 4096)


def test_next_step_folds_nothing() -> None:
    measures = Measures()
    measures.fold_from((0, 10), (0, 10))
    measures.enter_step("decide")
    measures.record_folded(10, 10)
    assert measures.folding is None


def test_foreign_datagrams_are_dropped() -> None:
    signed = signed_datagram(encode_report(report()), KEY)
    altered = signed[:-1] + bytes([signed[-1] ^ 1])
    for datagram in (
        b"",
        b"x" * 40,
        signed[:20],
        altered,
        signed_datagram(encode_report(report()), OTHER_KEY),
    ):
        assert signed_body(datagram, KEY) is None
    assert decode_report(b"x") is None


def test_host_is_looked_up_once() -> None:
    hosts: list[str] = []

    def look_up(host: str) -> str:
        hosts.append(host)
        return "127.0.0.1"

    sender = DatagramSender(Address("driver-1", 9, KEY), look_up)
    for _ in range(3):
        sender.send_body(encode_report(report()))
    sender.close()
    assert hosts == ["driver-1"]


def test_unknown_host_gets_nothing() -> None:
    def fail(_: str) -> str:
        raise socket.gaierror("unknown")

    sender = DatagramSender(Address("nowhere", 9, KEY), fail)
    sender.send_body(encode_report(report()))
    sender.close()


def test_key_stays_out_of_logs() -> None:
    assert "kkk" not in repr(Address("127.0.0.1", 9, KEY))
