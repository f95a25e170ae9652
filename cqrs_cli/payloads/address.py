"""The place of large payloads, as a value that travels to each task."""

from typing import NamedTuple

from cqrs_cli.errors import UnavailableError

#: Data longer than this go to the store, in bytes.
THRESHOLD = 256 * 1024


class PayloadUnavailableError(UnavailableError):
    """A payload is missing or altered, or the store does not answer. Trying again may help."""


class PayloadStoreAddress(NamedTuple):
    """A payload store, and when it is used."""

    uri: str
    threshold: int = THRESHOLD
    retry_for: float = 5.0  # seconds in which a transfer that failed is tried again
    timeout: float = 30.0  # seconds that a store may take to answer
