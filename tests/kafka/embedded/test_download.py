"""Kafka's jars are downloaded from a Maven repository or its mirror."""

import functools
import hashlib
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka.embedded.download import MIRROR, download
from cqrs_cli.kafka.embedded.release import Jar

SLF4J = Jar("org.slf4j:slf4j-api:1.7.36", hashlib.sha256(b"logging").hexdigest())
RE2J = Jar("com.google.re2j:re2j:1.8", hashlib.sha256(b"regular").hexdigest())


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder with both jars, in the layout of Maven."""
    root = tmp_path / "repository"
    for jar, content in ((SLF4J, b"logging"), (RE2J, b"regular")):
        (root / jar.path).parent.mkdir(parents=True)
        (root / jar.path).write_bytes(content)
    return root


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def mirror(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The folder over HTTP, as the mirror of the environment."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, directory=repository)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv(MIRROR, f"{url}/")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield url
        server.shutdown()


def download_counts(folder: Path, *jars: Jar, timeout: float = 10.0) -> list[tuple[int, int]]:
    """Return the reported counts."""
    counts: list[tuple[int, int]] = []
    folder.mkdir()
    download(jars, folder, lambda *count: counts.append(count), timeout)
    return counts


def test_paths_follow_mavens_layout() -> None:
    assert SLF4J.path == "org/slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar"


@pytest.mark.usefixtures("mirror")
def test_jars_are_downloaded_and_counted(tmp_path: Path) -> None:
    assert download_counts(tmp_path / "jars", SLF4J, RE2J) == [(1, 7), (2, 14)]
    assert (tmp_path / "jars" / "re2j-1.8.jar").read_bytes() == b"regular"


def test_folder_may_be_the_mirror(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MIRROR, repository.as_uri())
    assert download_counts(tmp_path / "jars", SLF4J) == [(1, 7)]


def test_missing_jar_is_named(mirror: str, repository: Path, tmp_path: Path) -> None:
    (repository / RE2J.path).unlink()
    with pytest.raises(UnavailableError, match=rf"cannot download .*{mirror}/{RE2J.path} answers 404"):
        download_counts(tmp_path / "jars", SLF4J, RE2J)


def test_unreachable_repository_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MIRROR, "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(UnavailableError, match=rf"127.0.0.1:1/.*refused.*{MIRROR}.* -b"):
        download_counts(tmp_path / "jars", SLF4J)


def test_silent_repository_is_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:  # accepts connections, and never answers
        monkeypatch.setenv(MIRROR, f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with pytest.raises(UnavailableError, match="timed out"):
            download_counts(tmp_path / "jars", SLF4J, timeout=0.1)


@pytest.mark.parametrize("url", ["repo1.maven.org", "ftp://mirror", "/srv/maven"])
def test_invalid_mirror_is_an_error(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MIRROR, url)
    with pytest.raises(ConfigurationError, match=f"{MIRROR} is '{url}'"):
        download_counts(tmp_path / "jars", SLF4J)
