"""`cqrs payloads gc`: records of all topics count."""

from pathlib import Path

import pytest

from cqrs_cli.core.messages.payload_reference import refer
from cqrs_cli.payloads.sweep import SPARED
from tests.cli.conftest import Cqrs
from tests.payloads.stores import FolderStore

pytestmark = pytest.mark.kafka


@pytest.mark.pins("payloads")
def test_gc_spares_what_records_name(
    on_broker: Cqrs, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CQRS_PAYLOAD_STORE", str(tmp_path / "payloads"))
    monkeypatch.setenv("CQRS_PAYLOAD_THRESHOLD", "1KiB")
    store, folder = FolderStore(tmp_path / "payloads"), f"{prefix}bank_account"
    assert on_broker("send", "bank_account", "a", "Open", f"owner={'x' * 2000}").status == 0
    (named,) = store.files()
    unused = store.put(b"unused", folder)
    for file in (store.path / folder).iterdir():
        store.age_file(file, SPARED + 10)
    assert refer(b'{"owner":"%s"}' % (b"x" * 2000)).sha256 == named
    rehearsed = on_broker("payloads", "gc", "bank_account", "--dry-run", "-o", "json").lines[0]
    assert (rehearsed["kept"], rehearsed["put_aside"]) == (1, {"payloads": 1, "bytes": 6})
    assert store.file(unused, folder).exists()
    assert "1 put aside (6 bytes)" in on_broker("payloads", "gc", "bank_account").out
    assert (store.path / folder / named).exists() and not store.file(unused, folder).exists()
    shown = on_broker("tail", "bank_account", "commands", "-o", "json").lines[0]["message"]
    assert shown["data"] == {"owner": "x" * 2000} and "datasha256" not in shown


def test_gc_needs_a_store(on_broker: Cqrs) -> None:
    ended = on_broker("payloads", "gc")
    assert ended.status == 3 and "payload_store" in ended.err
