"""The doctor's checks of a gateway that is unhealthy or another program: the test runs a fake server."""

import http.server
import json
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import pytest

from cqrs_cli.cli.main import main
from cqrs_cli.doctor.check import run_check
from cqrs_cli.doctor.gateway import check_gateway, check_gateway_extra, parse_gateway
from cqrs_cli.errors import UsageError
from cqrs_cli.version import __version__

API = {
    "info": {"version": __version__},
    "paths": {"/counter": {"get": {}}, "/counter/{id}/Increment": {"post": {}}},
    "components": {"schemas": {}},
}
PATHS: Mapping[str, tuple[int, Any]] = {
    "/healthz": (200, {"alive": True}),
    "/readyz": (200, {"ready": True, "waiting": {}}),
    "/openapi.json": (200, API),
}


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers each path as configured."""

    paths: Mapping[str, tuple[int, Any]] = {}

    def do_GET(self) -> None:
        status, body = self.paths.get(self.path, (404, {"title": "no such path"}))
        if status == 401 and self.headers["Authorization"] == "Bearer right":
            status = 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "https://elsewhere.example/")
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def answering(host: str = "127.0.0.1", **changed: tuple[int, Any]) -> Iterator[str]:
    """Run a gateway with other answers for some paths, and yield its address."""
    paths = {**PATHS, **{f"/{path.replace('_', '.')}": answer for path, answer in changed.items()}}
    handler = type("Changed", (Answering,), {"paths": paths})
    with http.server.ThreadingHTTPServer((host, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{host}:{server.server_port}"
        server.shutdown()


def ours(names: Collection[str], read_only: bool) -> Mapping[str, Any]:
    assert (list(names), read_only) == (["counter"], False)
    return API


def found(url: str, token: str | None = None, known: Collection[str] = ("counter",)) -> list[tuple[str, str]]:
    """Return status and detail of each check, without the address."""
    at = parse_gateway(url)
    checks = run_check("gateway", lambda: check_gateway(at, token, known, ours))
    return [(check.status, check.detail.replace(str(at), "it")) for check in checks]


GOOD = [
    ("ok", "it answers"),
    ("ok", "it has processed the events from before its start"),
    ("ok", "it requires no token"),
    ("ok", "it serves counter with this project's code, and accepts commands"),
]


def test_good_gateway_is_all_right() -> None:
    with answering() as url:
        assert found(url) == found(f"{url}/") == GOOD


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((404, {}), "it/healthz responds with 404: it is not a gateway"),
        ((200, b"<html>"), "it/healthz responds with 200: it is not a gateway"),
        ((200, b"[" * 100_000), "it/healthz responds with 200: it is not a gateway"),
        (
            (302, b""),
            "it/healthz responds with 302, which leads to https://elsewhere.example/: it is not a gateway",
        ),
        ((421, {}), "it does not accept this host name"),
    ],
)
def test_others_are_told_apart(answer: tuple[int, Any], said: str) -> None:
    with answering(healthz=answer) as url:
        assert found(url) == [("fail", said)]


@pytest.mark.program
def test_silence_is_a_failure() -> None:
    ((status, said),) = found("http://127.0.0.1:1")
    assert status == "fail" and said == "no answer from it (Connection refused)"
    assert main(["doctor", "-q", "-o", "json", "--gateway", "http://127.0.0.1:1"]) in (3, 4)


def test_late_states_are_named() -> None:
    waiting = {"ready": False, "waiting": {"counter": "7 offsets behind its start"}}
    with answering(readyz=(503, waiting)) as url:
        assert found(url)[1] == (
            "warn",
            "it serves outdated states (counter: 7 offsets behind its start)",
        )


def test_token_is_asked_for() -> None:
    with answering(openapi_json=(401, API)) as url:
        wanted = ("warn", "it requires a token, so its aggregates are not known")
        assert found(url) == [*GOOD[:2], wanted]
        assert found(url, "wrong") == [*GOOD[:2], ("fail", "it rejects this token")]
        assert found(url, "right") == [
            *GOOD[:2],
            ("ok", "it requires a token, and accepts this token"),
            GOOD[3],
        ]


def test_open_doors_are_pointed_out() -> None:
    """A gateway that other machines reach needs a token, and TLS to protect the token."""
    with answering(host="0.0.0.0") as url:
        assert found(url)[2] == ("warn", "it requires no token: everybody who reaches it can read everything")
    with answering(host="0.0.0.0", openapi_json=(401, API)) as url:
        assert found(url, "right")[2] == ("warn", "tokens for it are sent in plain text")


def test_aggregates_are_compared() -> None:
    with answering() as url:
        (*_, said) = found(url, known=["order"])
        assert said == ("fail", "it serves counter, and no aggregate of this project")
        (*_, missing, served) = found(url, known=["counter", "order"])
        assert missing == ("warn", "it does not serve order") and served == GOOD[3]
    both = {**API, "paths": {**API["paths"], "/theatre": {"get": {}}}}  # type: ignore[dict-item]
    with answering(openapi_json=(200, both)) as url:
        (*_, strange, served) = found(url)
        assert strange == ("warn", "it serves theatre, which this project does not have")
        assert served == ("ok", "it serves counter, theatre, and accepts commands")


def test_other_code_and_versions_are_named() -> None:
    with answering(openapi_json=(200, {**API, "components": {"schemas": {"Increment": {}}}})) as url:
        assert found(url)[3:] == [("warn", "it serves counter with other code than this project's")]
    with answering(openapi_json=(200, {**API, "info": {"version": "0.0.1"}})) as url:
        old, served = found(url)[3:]
        assert old == ("warn", f"it is cqrs 0.0.1, this is {__version__}")
        assert served == ("ok", "it serves counter, and accepts commands")


@pytest.mark.parametrize("body", [[], {}, {"info": {}}, {**API, "paths": {"": {}}}, {**API, "paths": [1]}])
def test_odd_descriptions_are_no_bugs(body: object) -> None:
    with answering(openapi_json=(200, body)) as url:
        (*_, (status, said)) = found(url)
        assert status == "fail" and said.endswith("it is not a gateway")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8080", "ftp://x", "http://", "http://x:y", "http://[", "http://a@b", "http://x/?q"]
)
def test_only_an_address_is_taken(url: str) -> None:
    with pytest.raises(UsageError, match="is not the URL of a gateway"):
        parse_gateway(url)


def test_addresses_are_written_as_given() -> None:
    for url in ("http://127.0.0.1:8080", "https://cqrs.example/bank", "http://[::1]:80"):
        assert str(parse_gateway(url)) == url


def test_extra_is_named() -> None:
    (here,) = check_gateway_extra()
    assert here.status == "ok" and here.detail.startswith("starlette ") and not here.hint

    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    (gone,) = check_gateway_extra(version)
    assert (gone.status, gone.detail) == ("ok", "without starlette and uvicorn, which only cqrs serve needs")
    assert gone.hint == "for it: pip install 'cqrs-cli[gateway]'"
