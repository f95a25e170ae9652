"""The system's errors about a state folder become errors that name the remedy."""

import errno
from contextlib import closing
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, ContradictionError
from cqrs_cli.state.encoding import check_whole_key, shorten
from cqrs_cli.state.errors import translate_errors
from cqrs_cli.state.lmdb_store import LmdbStore


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (OSError(errno.ENOSPC, "full"), "no space left for the state in /s (full)", "free disk space"),
        (
            OSError(errno.EIO, "short"),
            "the disk is full or failing under the state in /s (short)",
            "free disk space",
        ),
        (OSError(errno.EACCES, "no"), "the state folder /s cannot be used (no)", "state_dir"),
    ],
)
def test_error_says_what_to_do(error: Exception, message: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as raised, translate_errors(Path("/s")):
        raise error
    assert raised.value.message == message and hint in raised.value.hint


def test_folder_opens_once_in_a_process(tmp_path: Path) -> None:
    with closing(LmdbStore(tmp_path, 1000)), pytest.raises(ConfigurationError) as raised:
        LmdbStore(tmp_path, 1000)
    assert raised.value.message == f"the state in {tmp_path} is already open in this process"
    assert raised.value.hint == "open it only once"


def test_shared_digest_says_what_to_do() -> None:
    check_whole_key(b"k", b"k")
    with pytest.raises(ContradictionError) as raised:
        check_whole_key(b"k", b"other")
    assert (raised.value.message, raised.value.hint) == (
        "two ids longer than 500 bytes share one digest",
        "use shorter ids",
    )


def test_digest_of_a_long_key_is_stable() -> None:
    """Shards of other releases are read with this digest."""
    digest = "f29169c583c9f74cba08c301b7f6a85dd968aedc73e4bfe61a527aed20bf0159"
    assert shorten(b"k" * 501) == b"\xff" + bytes.fromhex(digest)
