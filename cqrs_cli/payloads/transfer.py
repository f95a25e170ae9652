"""Uploads and downloads of payloads: several at a time, with retries and timeouts."""

import time
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from typing import TypeVar

from cqrs_cli.core.messages.payload_reference import PayloadReference
from cqrs_cli.errors import PayloadUnavailableError
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.store import AlteredPayloadError, PayloadStore
from cqrs_cli.payloads.transfer_pool import TransferPool
from cqrs_cli.storage.reasons import StoreReason, explain_store_error

#: The maximal number of concurrent calls to a store, for each process.
_MAX_THREADS = 8

#: Seconds before the first retry. Each later pause is twice as long as the previous pause, up to `_LONGEST_PAUSE`.
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0

_K = TypeVar("_K")
_T = TypeVar("_T")

#: The result for a payload: its bytes, or the reason why it is unavailable.
Fetched = bytes | str


class PayloadTransfer:
    """Uploads to one payload store, and downloads from it."""

    def __init__(self, address: PayloadStoreAddress) -> None:
        self.address = address
        self.store = PayloadStore(address.uri)
        self._pool = TransferPool(_MAX_THREADS)

    def fetch(self, folder: str, references: Collection[PayloadReference]) -> dict[PayloadReference, Fetched]:
        """Download payloads. Return for each payload its bytes, or the reason why it is unavailable."""
        calls = {reference: partial(self.store.get, folder, reference) for reference in references}
        results, errors = self._call(calls)
        return {**results, **{reference: _reason(error).text for reference, error in errors.items()}}

    def upload(self, folder: str, payloads: Mapping[PayloadReference, bytes]) -> None:
        """Upload payloads; raises `PayloadUnavailableError` if an upload fails."""
        calls = {
            reference: partial(self.store.put, folder, reference, data)
            for reference, data in payloads.items()
        }
        for reference, error in self._call(calls)[1].items():
            reason = _reason(error)
            raise PayloadUnavailableError(
                f"payload {reference.sha256} could not be stored in {self.store.uri}: {reason.text}",
                reason.hint,
            )

    def call_with_retries(self, call: Callable[[], _T]) -> _T:
        """Make one call, with retries, and return its result; raises `PayloadUnavailableError`."""
        results, errors = self._call({"": partial(call)})
        for error in errors.values():
            raise unusable_store_error(self.store.uri, error)
        return results[""]

    def _call(self, calls: "Mapping[_K, partial[_T]]") -> tuple[dict[_K, _T], dict[_K, Exception | None]]:
        """Make the calls (name → function), with retries. Return the results of the successful calls, and the last
        error of each failed call, which is None after a timeout.
        """
        self.store.load_client()  # outside of the timeout of a call
        results: dict[_K, _T] = {}
        errors: dict[_K, Exception | None] = {}
        remaining_calls, pause = dict(calls), _FIRST_PAUSE
        deadline = time.monotonic() + self.address.retry_for
        while remaining_calls:
            answers = self._pool.call(remaining_calls, self.address.timeout)
            errors = {}
            for name in remaining_calls:
                result = answers.get(name)
                if name not in answers or isinstance(result, Exception):
                    errors[name] = result if isinstance(result, Exception) else None
                else:
                    results[name] = result  # type: ignore[assignment]
            remaining_calls = {name: calls[name] for name in errors}
            if not remaining_calls or time.monotonic() + pause > deadline:
                break
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return results, errors


@lru_cache(maxsize=8)
def payload_transfer(address: PayloadStoreAddress) -> PayloadTransfer:
    """Return this process's transfer for a store; all callers share its threads and connections."""
    return PayloadTransfer(address)


def unusable_store_error(uri: str, error: Exception | None) -> PayloadUnavailableError:
    """Return the error for a store that fails or does not answer; `error` is None if it does not answer."""
    reason = _reason(error)
    return PayloadUnavailableError(f"{uri} cannot be used: {reason.text}", reason.hint)


def _reason(error: Exception | None) -> StoreReason:
    match error:
        case None:
            return StoreReason(
                "the store does not answer",
                "check that the store is running, and that its address is correct",
            )
        case FileNotFoundError():
            return StoreReason("it is missing", "check the store with cqrs doctor")
        case AlteredPayloadError():
            return StoreReason(f"it is altered: {error}", "")
    return explain_store_error(error)
