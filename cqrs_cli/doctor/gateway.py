"""Checks the libraries that `cqrs serve` needs on this machine, and a running gateway as a client sees it."""

import http.client
import json
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import metadata
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cqrs_cli.doctor.check import Check, fail, ok, warn
from cqrs_cli.errors import ConfigurationError, UnavailableError, UsageError
from cqrs_cli.extras import install_command
from cqrs_cli.version import __version__

#: The libraries of the extra `gateway`.
_LIBRARIES = ("starlette", "uvicorn")

#: Timeout in seconds for each answer.
_TIMEOUT = 10.0

#: The largest answer in bytes: the OpenAPI document of a hundred aggregates is smaller.
_MAX_ANSWER_BYTES = 16 << 20

#: The prefix of the console's paths. The paths of aggregates begin with the aggregate's name instead.
_CONSOLE_PATHS = "/api/"

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}

#: Builds the OpenAPI document from the project's code. Its arguments are the names of the aggregates, and whether the
#: gateway is read-only.
BuildApi = Callable[[Collection[str], bool], Mapping[str, Any]]


def check_gateway_extra(version_of: Callable[[str], str] = metadata.version) -> Iterator[Check]:
    """Report the libraries that only `cqrs serve` needs."""
    versions = {name: version for name in _LIBRARIES if (version := _library_version(name, version_of))}
    if len(versions) == len(_LIBRARIES):
        yield ok("gateway", ", ".join(f"{name} {version}" for name, version in versions.items()))
    else:
        missing_libraries = " and ".join(name for name in _LIBRARIES if name not in versions)
        yield Check(
            "gateway",
            "ok",
            f"without {missing_libraries}, which only cqrs serve needs",
            f"for it: {install_command('gateway')}",
        )


def _library_version(library: str, version_of: Callable[[str], str]) -> str:
    try:
        return version_of(library)
    except metadata.PackageNotFoundError:
        return ""


class GatewayAddress(NamedTuple):
    """The address of a gateway; `path` precedes the gateway's own paths: `https://shop.example/api`."""

    scheme: str
    host: str
    port: int | None
    path: str

    @property
    def is_local(self) -> bool:
        """True if only programs on this machine reach the gateway at this address."""
        return self.host in _LOOPBACK

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}{'' if self.port is None else f':{self.port}'}{self.path}"


def parse_gateway(url: str) -> GatewayAddress:
    """Return the address in a URL; raises `UsageError`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or parts.username:
        raise UsageError(f"--gateway: {url!r} is not the URL of a gateway", "e.g. http://127.0.0.1:8080")
    return GatewayAddress(parts.scheme, host, port, parts.path.rstrip("/"))


def check_gateway(
    address: GatewayAddress, token: str | None, project_aggregates: Collection[str], build_api: BuildApi
) -> Iterator[Check]:
    """Check that a gateway responds, and compare its API with the project's aggregates and code.

    Raises `UnavailableError` if there is no answer, `ConfigurationError` if another server answers.
    """
    _require_alive(address)
    yield ok("gateway", f"{address} answers")
    yield _check_readiness(address)
    response = _request(address, "/openapi.json")
    if response.status == 200:
        yield _check_open_access(address)
        yield from _compare_api(address, response.body, project_aggregates, build_api)
    elif response.status != 401:
        raise _not_a_gateway_error(address, "/openapi.json", response)
    elif token is None:
        hint = "name the file of the token: --token-file FILE"
        yield warn("gateway", f"{address} requires a token, so its aggregates are not known", hint)
    else:
        yield from _check_with_token(address, token, project_aggregates, build_api)


def _check_with_token(
    address: GatewayAddress, token: str, project_aggregates: Collection[str], build_api: BuildApi
) -> Iterator[Check]:
    if address.scheme == "http" and not address.is_local:
        hint = "put a proxy with TLS in front of the gateway, and use https"
        yield warn("gateway", f"tokens for {address} are sent in plain text", hint)
    response = _request(address, "/openapi.json", token)
    if response.status == 401:
        hint = "check that it is the file of cqrs serve --token-file, which the gateway reads when it starts"
        yield fail("gateway", ConfigurationError(f"{address} rejects this token", hint))
    elif response.status != 200:
        raise _not_a_gateway_error(address, "/openapi.json", response)
    else:
        yield ok("gateway", f"{address} requires a token, and accepts this token")
        yield from _compare_api(address, response.body, project_aggregates, build_api)


class _Response(NamedTuple):
    """A response. `body`: its JSON, or None for any other body. `location`: the target of a redirect."""

    status: int
    body: Any
    location: str


def _request(address: GatewayAddress, path: str, token: str | None = None) -> _Response:
    """Send one request, and follow no redirect: the token must not reach another server."""
    connection_class = (
        http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    )
    client = connection_class(address.host, address.port, timeout=_TIMEOUT)
    headers = {"Accept": "application/json"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    try:
        client.request("GET", f"{address.path}{path}", headers=headers)
        response = client.getresponse()
        content = response.read(_MAX_ANSWER_BYTES)
    except ssl.SSLCertVerificationError as error:
        raise ConfigurationError(
            f"the certificate of {address} is not trusted ({error.verify_message})",
            "to trust another certificate authority, set SSL_CERT_FILE to its file",
        ) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UnavailableError(
            f"no answer from {address} ({getattr(error, 'strerror', None) or error or type(error).__name__})",
            "check the address, and that cqrs serve runs there; its stderr contains the reason of an exit",
        ) from error
    finally:
        client.close()
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    return _Response(response.status, body, response.getheader("Location", ""))


def _require_alive(address: GatewayAddress) -> None:
    response = _request(address, "/healthz")
    if response.status == 421:
        raise ConfigurationError(
            f"{address} does not accept this host name", f"allow it: cqrs serve --allow-host {address.host}"
        )
    if response.status != 200 or response.body != {"alive": True}:
        raise _not_a_gateway_error(address, "/healthz", response)


def _not_a_gateway_error(address: GatewayAddress, path: str, response: _Response) -> ConfigurationError:
    redirect_text = f", which leads to {response.location[:200]}" if response.location else ""
    return ConfigurationError(
        f"{address}{path} responds with {response.status}{redirect_text}: it is not a gateway",
        "check the address; a proxy in front of the gateway must not change the paths",
    )


def _check_readiness(address: GatewayAddress) -> Check:
    response = _request(address, "/readyz")
    if response.status == 200:
        return ok("gateway", f"{address} has processed the events from before its start")
    waiting = response.body.get("waiting") if isinstance(response.body, dict) else None
    if response.status != 503 or not isinstance(waiting, dict):
        raise _not_a_gateway_error(address, "/readyz", response)
    reasons = "; ".join(f"{name}: {text}" for name, text in sorted(waiting.items()))
    return warn(
        "gateway", f"{address} serves outdated states ({reasons})", "wait; if this persists, check its stderr"
    )


def _check_open_access(address: GatewayAddress) -> Check:
    """Report that the gateway requires no token; a warning if other machines may reach it."""
    if address.is_local:
        return ok("gateway", f"{address} requires no token")
    hint = "cqrs serve --token-file FILE, or let a proxy in front of it authenticate the clients"
    return warn("gateway", f"{address} requires no token: everybody who reaches it can read everything", hint)


def _compare_api(
    address: GatewayAddress, api: Any, project_aggregates: Collection[str], build_api: BuildApi
) -> Iterator[Check]:
    """Compare the gateway's API with the project."""
    try:
        version, schemas = api["info"]["version"], api["components"]["schemas"]
        paths = {path: item for path, item in api["paths"].items() if not path.startswith(_CONSOLE_PATHS)}
        served_names = sorted({path.split("/")[1] for path in paths})
    except (TypeError, KeyError, AttributeError, IndexError):
        raise _not_a_gateway_error(address, "/openapi.json", _Response(200, api, "")) from None
    names = ", ".join(served_names) or "nothing"
    if not set(served_names) & set(project_aggregates):
        hint = "check that it is the gateway of this project"
        error = ConfigurationError(f"{address} serves {names}, and no aggregate of this project", hint)
        yield fail("gateway", error)
        return
    if unknown_names := sorted(set(served_names) - set(project_aggregates)):
        hint = "check that it is the gateway of this project, with the same code"
        yield warn(
            "gateway", f"{address} serves {', '.join(unknown_names)}, which this project does not have", hint
        )
    if missing_names := sorted(set(project_aggregates) - set(served_names)):
        hint = f"start it without names, or with them: cqrs serve {' '.join([*served_names, *missing_names])}"
        yield warn("gateway", f"{address} does not serve {', '.join(missing_names)}", hint)
    read_only = not any("post" in item for item in paths.values())
    accepted_text = "no commands" if read_only else "commands"
    if version != __version__:
        hint = "install the same version on both sides"
        yield warn("gateway", f"{address} is cqrs {version}, this is {__version__}", hint)
    if version != __version__ or unknown_names:
        yield ok("gateway", f"{address} serves {names}, and accepts {accepted_text}")
        return
    project_api = build_api(served_names, read_only)
    if (project_api["paths"], project_api["components"]["schemas"]) == (paths, schemas):
        yield ok("gateway", f"{address} serves {names} with this project's code, and accepts {accepted_text}")
    else:
        hint = "restart it with the project's code; until then it serves states of its own code"
        yield warn("gateway", f"{address} serves {names} with other code than this project's", hint)
