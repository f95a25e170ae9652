"""Downloads the broker's jars from Maven Central, or from the mirror in the environment variable CQRS_MAVEN_MIRROR."""

import os
import shutil
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka.embedded.release import Jar

CENTRAL = "https://repo1.maven.org/maven2"

#: The environment variable with the base URL of a Maven repository: `https:`, `http:` or `file:`.
MIRROR = "CQRS_MAVEN_MIRROR"

#: Timeout in seconds for each answer of the repository.
TIMEOUT = 60.0

#: Number of downloads at the same time.
_PARALLEL_DOWNLOADS = 8

#: Called with the numbers of jars and bytes that were downloaded so far.
OnDownload = Callable[[int, int], None]


def download(jars: Collection[Jar], folder: Path, on_download: OnDownload, timeout: float = TIMEOUT) -> None:
    """Download jars into a folder. Raises `UnavailableError` if a jar cannot be downloaded. The caller checks
    checksums.
    """
    repository, size = _repository(), 0
    with ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool:
        downloads = [pool.submit(partial(_download, repository, jar, folder, timeout)) for jar in jars]
        try:
            for count, finished_download in enumerate(as_completed(downloads), 1):
                size += finished_download.result()
                on_download(count, size)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _repository() -> str:
    url = os.environ.get(MIRROR) or CENTRAL
    if not url.startswith(("https://", "http://", "file:///")):
        raise ConfigurationError(
            f"{MIRROR} is {url!r}, which is no URL of a Maven repository",
            f"write it like {CENTRAL}, or unset it",
        )
    return url.rstrip("/")


def _download(repository: str, jar: Jar, folder: Path, timeout: float) -> int:
    """Download one jar; return its size in bytes."""
    url = f"{repository}/{jar.path}"
    try:
        with urlopen(url, timeout=timeout) as response, (folder / jar.name).open("wb") as file:
            shutil.copyfileobj(response, file)
            return file.tell()
    except HTTPError as error:
        reason = f"{url} answers {error.code} {error.reason}"
    except URLError as error:
        reason = f"{url}: {error.reason}"
    except (TimeoutError, ConnectionError) as error:
        reason = f"{url}: {error}"
    raise UnavailableError(
        f"cannot download Apache Kafka: {reason}",
        f"connect to the network for this download, name a mirror in {MIRROR}, or a broker with -b",
    )
