"""Object stores of the S3 protocol: a client that gives up, and buckets that are missing instead of empty."""

from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote

from cqrs_cli.errors import ConfigurationError

#: Seconds that a store has to accept a connection, and that it may send nothing.
_CONNECT_TIMEOUT = 5.0
STORE_TIMEOUT = 9.0

_ATTEMPTS = 3

_OPTIONS = {"region", "scheme", "endpoint_override"}


def open_bucket(parts: SplitResult, timeout: float = STORE_TIMEOUT) -> tuple[Any, str]:
    """The client for a URI, and the path in it. Nothing is asked of the store yet."""
    from pyarrow import fs

    options = dict(parse_qsl(parts.query))
    if unknown := sorted(options.keys() - _OPTIONS):
        raise ConfigurationError(
            f"s3://{parts.netloc}: unknown option {unknown[0]}", f"known: {', '.join(sorted(_OPTIONS))}"
        )
    path = f"{parts.netloc}{unquote(parts.path)}".rstrip("/")
    if "//" in path:
        raise ConfigurationError(f"s3://{path}: a folder has no name", "write one slash in place of two")
    client = fs.S3FileSystem(
        **options,
        allow_delayed_open=True,  # a small object is one request
        connect_timeout=_CONNECT_TIMEOUT,
        request_timeout=timeout,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )
    return client, path


def require_bucket(filesystem: Any, path: str) -> None:
    """Raise `OSError` if a path's bucket does not exist: to Arrow nothing is found there, and no more."""
    bucket = path.partition("/")[0]
    if filesystem.type_name == "s3" and filesystem.get_file_info([bucket])[0].type.name == "NotFound":
        raise OSError(f"AWS Error NO_SUCH_BUCKET: {bucket}")


def list_files(filesystem: Any, path: str) -> list[Any]:
    """The files right in a folder, with what is known of them; none if it does not exist."""
    from pyarrow import fs

    found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    if not found:
        require_bucket(filesystem, path)
    return [one for one in found if one.is_file]
