"""Explains an error of an object store or file system in one line: reason and remedy."""

import re
from typing import NamedTuple


class StoreReason(NamedTuple):
    """The reason of a store's error (`text`), and the remedy (`hint`).

    The caller's message names the store or file before `text`: `s3://bucket/folder cannot be used: it does not answer`.
    """

    text: str
    hint: str


_LOGIN_HINT = "check the credentials in the environment, and their rights"
_ADDRESS_HINT = "check that the store is running, and that its address is correct"

#: Arrow's name of an S3 error → its reason. The response to a request for an object's size (HEAD) has no body, so it
#: does not name the error: for such a request, wrong credentials and missing permissions give the same error.
_S3_REASONS = {
    "NO_SUCH_BUCKET": StoreReason("the bucket does not exist", "create it, or correct the address"),
    "ACCESS_DENIED": StoreReason("access is denied", _LOGIN_HINT),
    "INVALID_ACCESS_KEY_ID": StoreReason("the access key is unknown", _LOGIN_HINT),
    "SIGNATURE_DOES_NOT_MATCH": StoreReason("the secret key is wrong", _LOGIN_HINT),
    "NETWORK_CONNECTION": StoreReason("it cannot be reached", _ADDRESS_HINT),
}

_S3_ERROR = re.compile(r"AWS Error (\w+)")

#: libcurl's code for a timeout.
_TIMED_OUT = "curlCode: 28"

#: The message of Amazon's client if the bytes do not match the checksum in the store.
_ALTERED = "checksums mismatch"

#: The maximal length of a quoted error, in characters.
_MAX_LENGTH = 300


def explain_store_error(error: Exception) -> StoreReason:
    """Return the reason of a file system's error; the text of an unknown error is quoted."""
    text = " ".join(str(error).split())
    match = _S3_ERROR.search(text)
    if match and _TIMED_OUT in text:
        return StoreReason("it does not answer", _ADDRESS_HINT)
    if is_checksum_mismatch(error):
        return StoreReason("it was altered: the store's own checksum differs", "restore it")
    if match and match[1] in _S3_REASONS:
        return _S3_REASONS[match[1]]
    return StoreReason(text[:_MAX_LENGTH], "check its address, credentials and rights")


def is_checksum_mismatch(error: Exception) -> bool:
    """True if the error reports that the bytes of a file do not match its checksum in the store."""
    return _ALTERED in str(error)
