"""Checks that the payload store responds. Nothing is written to it."""

from collections.abc import Iterator

from cqrs_cli.doctor.check import Check, ok, warn
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.transfer import payload_transfer


def check_payloads(address: PayloadStoreAddress | None) -> Iterator[Check]:
    """Yield one finding, if there is a store; raises `PayloadUnavailableError` if the store does not answer."""
    if address is None:
        return
    transfer = payload_transfer(address)
    if transfer.call_with_retries(transfer.store.exists):
        yield ok("payloads", f"{address.uri} responds")
    else:
        hint = "the first payload creates it; all machines must see the same folder"
        yield warn("payloads", f"{address.uri} does not exist yet", hint)
