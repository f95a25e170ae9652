"""Opens object stores with the S3 protocol: sets timeouts, and reports a missing bucket as an error."""

from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote

from cqrs_cli.errors import ConfigurationError

#: Timeout in seconds for the connection to a store.
_CONNECT_TIMEOUT = 5.0

#: Timeout in seconds for a store that sends no data.
STORE_TIMEOUT = 9.0

#: The maximal number of attempts at one request.
_ATTEMPTS = 3

#: The options that the query of an S3 URI may contain.
_OPTIONS = {"region", "scheme", "endpoint_override"}


def open_bucket(parts: SplitResult, timeout: float = STORE_TIMEOUT) -> tuple[Any, str]:
    """Return the client for an S3 URI and the path, `bucket/folder`. It sends no request to the store yet.

    Raises `ConfigurationError` for an unknown option and an empty name in the path.
    """
    from pyarrow import fs

    options = dict(parse_qsl(parts.query))
    if unknown_options := sorted(options.keys() - _OPTIONS):
        raise ConfigurationError(
            f"s3://{parts.netloc}: unknown option {unknown_options[0]}",
            f"known: {', '.join(sorted(_OPTIONS))}",
        )
    path = f"{parts.netloc}{unquote(parts.path)}".rstrip("/")
    if "//" in path:
        raise ConfigurationError(
            f"s3://{path}: a folder in the path has no name", "write one slash in place of two"
        )
    client = fs.S3FileSystem(
        **options,
        allow_delayed_open=True,  # then the upload of a small object is a single request
        connect_timeout=_CONNECT_TIMEOUT,
        request_timeout=timeout,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )
    return client, path


def require_bucket(filesystem: Any, path: str) -> None:
    """Raise `OSError` if a path's bucket does not exist. Arrow only reports that the path was not found."""
    bucket = path.partition("/")[0]
    if filesystem.type_name == "s3" and filesystem.get_file_info([bucket])[0].type.name == "NotFound":
        raise OSError(f"AWS Error NO_SUCH_BUCKET: {bucket}")


def list_files(filesystem: Any, path: str) -> list[Any]:
    """Return Arrow's `FileInfo` of the files directly in a folder; an empty list if the folder does not exist."""
    from pyarrow import fs

    infos = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    if not infos:
        require_bucket(filesystem, path)
    return [info for info in infos if info.is_file]
