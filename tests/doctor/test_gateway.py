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
RESPONSES: Mapping[str, tuple[int, Any]] = {
    "/healthz": (200, {"alive": True}),
    "/readyz": (200, {"ready": True, "waiting": {}}),
    "/openapi.json": (200, API),
}


class GatewayHandler(http.server.BaseHTTPRequestHandler):
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
def fake_gateway(host: str = "127.0.0.1", **responses: tuple[int, Any]) -> Iterator[str]:
    """Run a gateway with other responses for some paths, and yield its URL. `openapi_json`: of `/openapi.json`."""
    paths = {**RESPONSES, **{f"/{path.replace('_', '.')}": response for path, response in responses.items()}}
    handler = type("CustomHandler", (GatewayHandler,), {"paths": paths})
    with http.server.ThreadingHTTPServer((host, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{host}:{server.server_port}"
        server.shutdown()


def build_api(names: Collection[str], read_only: bool) -> Mapping[str, Any]:
    assert (list(names), read_only) == (["counter"], False)
    return API


def run_checks(
    url: str, token: str | None = None, project_aggregates: Collection[str] = ("counter",)
) -> list[tuple[str, str]]:
    """Return status and detail of each check, without the address."""
    address = parse_gateway(url)
    checks = run_check("gateway", lambda: check_gateway(address, token, project_aggregates, build_api))
    return [(check.status, check.detail.replace(str(address), "it")) for check in checks]


HEALTHY_RESULTS = [
    ("ok", "it answers"),
    ("ok", "it has processed the events from before its start"),
    ("ok", "it requires no token"),
    ("ok", "it serves counter with this project's code, and accepts commands"),
]


def test_healthy_gateway_passes() -> None:
    with fake_gateway() as url:
        assert run_checks(url) == run_checks(f"{url}/") == HEALTHY_RESULTS


@pytest.mark.parametrize(
    ("response", "detail"),
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
def test_other_servers_are_recognized(response: tuple[int, Any], detail: str) -> None:
    with fake_gateway(healthz=response) as url:
        assert run_checks(url) == [("fail", detail)]


@pytest.mark.program
def test_missing_gateway_fails() -> None:
    ((status, detail),) = run_checks("http://127.0.0.1:1")
    assert status == "fail" and detail == "no answer from it (Connection refused)"
    assert main(["doctor", "-q", "-o", "json", "--gateway", "http://127.0.0.1:1"]) in (3, 4)


def test_outdated_states_are_a_warning() -> None:
    response = {"ready": False, "waiting": {"counter": "7 offsets behind its start"}}
    with fake_gateway(readyz=(503, response)) as url:
        assert run_checks(url)[1] == (
            "warn",
            "it serves outdated states (counter: 7 offsets behind its start)",
        )


def test_token_is_checked() -> None:
    with fake_gateway(openapi_json=(401, API)) as url:
        warning = ("warn", "it requires a token, so its aggregates are not known")
        assert run_checks(url) == [*HEALTHY_RESULTS[:2], warning]
        assert run_checks(url, "wrong") == [*HEALTHY_RESULTS[:2], ("fail", "it rejects this token")]
        assert run_checks(url, "right") == [
            *HEALTHY_RESULTS[:2],
            ("ok", "it requires a token, and accepts this token"),
            HEALTHY_RESULTS[3],
        ]


def test_unprotected_gateway_is_a_warning() -> None:
    """A gateway that other machines reach needs a token, and TLS to protect the token."""
    with fake_gateway(host="0.0.0.0") as url:
        assert run_checks(url)[2] == (
            "warn",
            "it requires no token: everybody who reaches it can read everything",
        )
    with fake_gateway(host="0.0.0.0", openapi_json=(401, API)) as url:
        assert run_checks(url, "right")[2] == ("warn", "tokens for it are sent in plain text")


def test_aggregates_are_compared() -> None:
    with fake_gateway() as url:
        (*_, detail) = run_checks(url, project_aggregates=["order"])
        assert detail == ("fail", "it serves counter, and no aggregate of this project")
        (*_, missing, served) = run_checks(url, project_aggregates=["counter", "order"])
        assert missing == ("warn", "it does not serve order") and served == HEALTHY_RESULTS[3]
    two_aggregates = {**API, "paths": {**API["paths"], "/invoice": {"get": {}}}}  # type: ignore[dict-item]
    with fake_gateway(openapi_json=(200, two_aggregates)) as url:
        (*_, unknown, served) = run_checks(url)
        assert unknown == ("warn", "it serves invoice, which this project does not have")
        assert served == ("ok", "it serves counter, invoice, and accepts commands")


def test_other_code_and_versions_are_named() -> None:
    with fake_gateway(openapi_json=(200, {**API, "components": {"schemas": {"Increment": {}}}})) as url:
        assert run_checks(url)[3:] == [("warn", "it serves counter with other code than this project's")]
    with fake_gateway(openapi_json=(200, {**API, "info": {"version": "0.0.1"}})) as url:
        old, served = run_checks(url)[3:]
        assert old == ("warn", f"it is cqrs 0.0.1, this is {__version__}")
        assert served == ("ok", "it serves counter, and accepts commands")


@pytest.mark.parametrize("body", [[], {}, {"info": {}}, {**API, "paths": {"": {}}}, {**API, "paths": [1]}])
def test_invalid_descriptions_fail(body: object) -> None:
    with fake_gateway(openapi_json=(200, body)) as url:
        (*_, (status, detail)) = run_checks(url)
        assert status == "fail" and detail.endswith("it is not a gateway")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8080", "ftp://x", "http://", "http://x:y", "http://[", "http://a@b", "http://x/?q"]
)
def test_invalid_url_raises(url: str) -> None:
    with pytest.raises(UsageError, match="is not the URL of a gateway"):
        parse_gateway(url)


def test_addresses_are_written_as_given() -> None:
    for url in ("http://127.0.0.1:8080", "https://cqrs.example/bank", "http://[::1]:80"):
        assert str(parse_gateway(url)) == url


def test_extra_is_named() -> None:
    (installed,) = check_gateway_extra()
    assert installed.status == "ok" and installed.detail.startswith("starlette ") and not installed.hint

    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    (missing,) = check_gateway_extra(version)
    assert (missing.status, missing.detail) == (
        "ok",
        "without starlette and uvicorn, which only cqrs serve needs",
    )
    assert missing.hint == "for it: pip install 'cqrs-cli[gateway]'"
