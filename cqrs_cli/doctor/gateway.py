"""Checks of the gateway: the libraries that `cqrs serve` needs here, and a running gateway, from a client's view."""

import http.client
import json
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import metadata
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cqrs_cli.doctor.check import Check, fail, ok, warn
from cqrs_cli.errors import ConfigurationError, UnavailableError, UsageError
from cqrs_cli.version import __version__

#: The libraries of the extra.
_LIBRARIES = ("starlette", "uvicorn")

INSTALL_GATEWAY = "pip install 'cqrs-cli[gateway]'"

#: Timeout in seconds for each answer.
_PATIENCE = 10.0

#: The largest answer in bytes: the description of a hundred aggregates is smaller.
_LARGEST = 16 << 20

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}

#: Returns the API description of these aggregates from the project's code. The flag: the gateway accepts no commands.
Describe = Callable[[Collection[str], bool], Mapping[str, Any]]


def check_gateway_extra(version_of: Callable[[str], str] = metadata.version) -> Iterator[Check]:
    """Report the libraries that only `cqrs serve` needs."""
    found = {name: version for name in _LIBRARIES if (version := _version(name, version_of))}
    if len(found) == len(_LIBRARIES):
        yield ok("gateway", ", ".join(f"{name} {version}" for name, version in found.items()))
    else:
        missing = " and ".join(name for name in _LIBRARIES if name not in found)
        yield Check(
            "gateway", "ok", f"without {missing}, which only cqrs serve needs", f"for it: {INSTALL_GATEWAY}"
        )


def _version(library: str, version_of: Callable[[str], str]) -> str:
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
    def is_here(self) -> bool:
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
    at: GatewayAddress, token: str | None, known: Collection[str], describe: Describe
) -> Iterator[Check]:
    """Check a gateway. `known`: the project's aggregates.

    Raises `UnavailableError` if there is no answer, `ConfigurationError` if another server answers.
    """
    _require_alive(at)
    yield ok("gateway", f"{at} answers")
    yield _readiness(at)
    free = _get(at, "/openapi.json")
    if free.status == 200:
        yield _open(at)
        yield from _served(at, free.body, known, describe)
    elif free.status != 401:
        raise _surprise(at, "/openapi.json", free)
    elif token is None:
        hint = "name the file that has it: --token-file FILE"
        yield warn("gateway", f"{at} wants a token: which aggregates it serves is not known", hint)
    else:
        yield from _with_token(at, token, known, describe)


def _with_token(
    at: GatewayAddress, token: str, known: Collection[str], describe: Describe
) -> Iterator[Check]:
    if at.scheme == "http" and not at.is_here:
        hint = "put something in front of the gateway that does TLS, and use https"
        yield warn("gateway", f"tokens for {at} can be read on their way", hint)
    told = _get(at, "/openapi.json", token)
    if told.status == 401:
        hint = "is it the file of cqrs serve --token-file? A gateway reads it when it starts"
        yield fail("gateway", ConfigurationError(f"{at} does not take this token", hint))
    elif told.status != 200:
        raise _surprise(at, "/openapi.json", told)
    else:
        yield ok("gateway", f"{at} wants a token, and takes this one")
        yield from _served(at, told.body, known, describe)


class _Answer(NamedTuple):
    """An answer, with its JSON, or None for any other body. `location`: the target of a redirect."""

    status: int
    body: Any
    location: str


def _get(at: GatewayAddress, path: str, token: str | None = None) -> _Answer:
    """Send one request, and follow no redirect: the token must not reach another server."""
    kind = http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
    client = kind(at.host, at.port, timeout=_PATIENCE)
    headers = {"Accept": "application/json"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    try:
        client.request("GET", f"{at.path}{path}", headers=headers)
        found = client.getresponse()
        content = found.read(_LARGEST)
    except ssl.SSLCertVerificationError as error:
        raise ConfigurationError(
            f"the certificate of {at} is not trusted ({error.verify_message})",
            "SSL_CERT_FILE names a file with other authorities",
        ) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UnavailableError(
            f"no answer from {at} ({getattr(error, 'strerror', None) or error or type(error).__name__})",
            "is the address right, and does cqrs serve run there? its stderr says why it ended",
        ) from error
    finally:
        client.close()
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    return _Answer(found.status, body, found.getheader("Location", ""))


def _require_alive(at: GatewayAddress) -> None:
    found = _get(at, "/healthz")
    if found.status == 421:
        raise ConfigurationError(
            f"{at} is not meant by that name", f"name it there: cqrs serve --allow-host {at.host}"
        )
    if found.status != 200 or found.body != {"alive": True}:
        raise _surprise(at, "/healthz", found)


def _surprise(at: GatewayAddress, path: str, found: _Answer) -> ConfigurationError:
    leads = f", which leads to {found.location[:200]}" if found.location else ""
    return ConfigurationError(
        f"{at}{path} answers {found.status}{leads}: that is not a gateway",
        "is the address right? what stands in front of it must hand on its paths as they are",
    )


def _readiness(at: GatewayAddress) -> Check:
    found = _get(at, "/readyz")
    if found.status == 200:
        return ok("gateway", f"{at} has caught up with the events that were there when it started")
    waiting = found.body.get("waiting") if isinstance(found.body, dict) else None
    if found.status != 503 or not isinstance(waiting, dict):
        raise _surprise(at, "/readyz", found)
    why = "; ".join(f"{name}: {text}" for name, text in sorted(waiting.items()))
    return warn(
        "gateway", f"{at} answers with states of before ({why})", "wait; if it stays, look at its stderr"
    )


def _open(at: GatewayAddress) -> Check:
    if at.is_here:
        return ok("gateway", f"{at} wants no token")
    hint = "cqrs serve --token-file FILE, or let what stands in front of it ask who they are"
    return warn("gateway", f"{at} wants no token: whoever reaches it reads everything", hint)


def _served(at: GatewayAddress, api: Any, known: Collection[str], describe: Describe) -> Iterator[Check]:
    """Compare the gateway's API with the project."""
    try:
        version, paths, schemas = api["info"]["version"], api["paths"], api["components"]["schemas"]
        served = sorted({path.split("/")[1] for path in paths})
    except (TypeError, KeyError, AttributeError, IndexError):
        raise _surprise(at, "/openapi.json", _Answer(200, api, "")) from None
    names = ", ".join(served) or "nothing"
    if not set(served) & set(known):
        hint = "is it the gateway of another project?"
        error = ConfigurationError(f"{at} serves {names}, and no aggregate of this project", hint)
        yield fail("gateway", error)
        return
    if strange := sorted(set(served) - set(known)):
        hint = "is it the gateway of another project, or of other code?"
        yield warn("gateway", f"{at} serves {', '.join(strange)}, which this project does not have", hint)
    if missing := sorted(set(known) - set(served)):
        hint = f"start it without names, or with them: cqrs serve {' '.join([*served, *missing])}"
        yield warn("gateway", f"{at} does not serve {', '.join(missing)}", hint)
    read_only = not any("post" in item for item in paths.values())
    takes = "no commands" if read_only else "commands"
    if version != __version__:
        hint = "install the same version on both sides"
        yield warn("gateway", f"{at} is cqrs {version}, this is {__version__}", hint)
    if version != __version__ or strange:
        yield ok("gateway", f"{at} serves {names}, and takes {takes}")
        return
    ours = describe(served, read_only)
    if (ours["paths"], ours["components"]["schemas"]) == (paths, schemas):
        yield ok("gateway", f"{at} serves {names} as this project's code has them, and takes {takes}")
    else:
        hint = "start it again with the project's code; until then its states and checks are those of its own"
        yield warn("gateway", f"{at} serves {names} with other code than this project's", hint)
