"""The address of a payload store, as a value that is passed to each task."""

from typing import NamedTuple

#: Data above this size in bytes go to the payload store.
THRESHOLD = 256 * 1024


class PayloadStoreAddress(NamedTuple):
    """The URI of a payload store, with its threshold and timeouts."""

    uri: str
    threshold: int = THRESHOLD
    retry_for: float = 5.0  # seconds during which a failed transfer is retried
    timeout: float = 30.0  # seconds to wait for an answer of the store
