"""Asks a schema registry whether it accepts the messages of an aggregate, and registers them, for `cqrs check`.

The interface is Confluent's REST API, which Karapace and Apicurio (below /apis/ccompat/v7) have, too:
https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

import base64
import http.client
import json
import netrc
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.compatibility import Change
from cqrs_cli.core.aggregate.record_schemas import records_schema
from cqrs_cli.errors import ConfigurationError, UnavailableError, UsageError
from cqrs_cli.formatting import counted
from cqrs_cli.kafka.topics.topics import Topics

#: Timeout in seconds for the beginning of an answer of the registry, and for each further part of the answer.
TIMEOUT = 10.0

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"

_DRAFT_7, _REFERENCE = "http://json-schema.org/draft-07/schema#", "#/$defs/"

#: Codes of errors: the subject is not known, or it has no version.
_UNKNOWN_SUBJECT = {40401, 40402}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as the answer: `urllib` would send the login to any host, and no body."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


class SchemaRegistry:
    """A registry at an address such as https://user:password@registry:8081; `~/.netrc` may have the login instead."""

    def __init__(self, address: str, timeout: float = TIMEOUT) -> None:
        """Raises `UsageError` for an address that is not HTTP."""
        self._timeout = timeout
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError("--registry: no address of HTTP", "write --registry http://HOST:PORT")
        self.address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        self._headers = {"Content-Type": _CONTENT_TYPE, "Accept": f"{_CONTENT_TYPE}, application/json"}
        login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
        if login := login or _netrc_login(parts.hostname):
            credentials = base64.b64encode(":".join(login).encode()).decode()
            self._headers["Authorization"] = f"Basic {credentials}"

    def verdict(self, aggregate: Aggregate, topics: Topics, register: bool) -> list[Change]:
        """Ask the registry whether it accepts the schema of each message of an aggregate; with `register`, register the
        schemas. Return a red change for each rejected schema, or one green change if all are accepted.

        Raises `UnavailableError` or `ConfigurationError` if the registry gives no verdict.
        """
        schemas = dict(record_subjects(aggregate, topics))
        changes = [
            Change(
                "red",
                f"{subject}: the registry does not accept the schema: {reason}",
                "keep the old fields, or add fields with a default; or change the compatibility of the subject",
            )
            for subject, schema in schemas.items()
            if (reason := (self._register if register else self._objection)(subject, schema)) is not None
        ]
        text = counted(len(schemas), "message")
        accepted_text = f"the registry has {text}" if register else f"the registry accepts {text}"
        return changes or [Change("green", accepted_text)]

    def _objection(self, subject: str, schema: dict[str, Any]) -> str | None:
        """Return why a schema is not compatible with the latest version; None if it is, or if there is no version."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        status, answer = self._post(path, schema)
        if status == 404 and answer.get("error_code") in _UNKNOWN_SUBJECT:
            return None
        if status == 422:
            return _reason(answer)
        if status != 200 or "is_compatible" not in answer:
            raise self._unexpected_error(status, answer)
        return None if answer["is_compatible"] else _reason(answer)

    def _register(self, subject: str, schema: dict[str, Any]) -> str | None:
        """Register a schema as the latest version; return why the registry does not accept it, or None."""
        status, answer = self._post(f"/subjects/{quote(subject, safe='')}/versions", schema)
        if status in (409, 422):
            return _reason(answer)
        if status != 200 or "id" not in answer:
            raise self._unexpected_error(status, answer)
        return None

    def _post(self, path: str, schema: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON of the answer, empty if it is no JSON object."""
        body = json.dumps({"schemaType": "JSON", "schema": json.dumps(schema)}).encode()
        request = urllib.request.Request(self.address + path, body, self._headers)
        try:
            try:
                with _OPENER.open(request, timeout=self._timeout) as response:  # HTTP only: see __init__
                    status, text = response.status, response.read()
            except urllib.error.HTTPError as error:
                status, text = error.code, error.read()
        except TimeoutError:
            raise UnavailableError(
                f"the registry {self.address} did not answer within {self._timeout:g} s", "try again later"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            if isinstance(reason := getattr(error, "reason", None), TimeoutError):
                reason = f"no connection within {self._timeout:g} s"
            raise UnavailableError(
                f"the registry {self.address} is not reachable: {reason or error or type(error).__name__}",
                "start it, or correct --registry",
            ) from None
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        return status, answer if isinstance(answer, dict) else {}

    def _unexpected_error(self, status: int, answer: dict[str, Any]) -> Exception:
        """Return the error for an answer that is no verdict."""
        if status in (401, 403):
            return ConfigurationError(
                f"the registry {self.address} rejects the login",
                "write https://USER:PASSWORD@HOST, or put the login into ~/.netrc",
            )
        if 300 <= status < 400:
            return ConfigurationError(
                f"the registry {self.address} redirects to another address",
                "name that address with --registry",
            )
        if status >= 500:
            return UnavailableError(
                f"the registry {self.address} failed: {status} {_reason(answer)}", "try again later"
            )
        return ConfigurationError(
            f"{self.address} is no schema registry: it answered {status} {_reason(answer)}".rstrip(),
            "name the address below which /subjects is; Apicurio's ends with /apis/ccompat/v7",
        )


def record_subjects(aggregate: Aggregate, topics: Topics) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the subject and the JSON Schema of each command and event. Subjects are named as by Confluent's
    `TopicRecordNameStrategy`: `order.events-order.Placed`.

    The schemas are of draft 7, because registries cannot compare later drafts. Their objects are closed, because
    registries call a new optional field of an open object incompatible.
    """
    definitions = records_schema(aggregate)["$defs"]
    for name, definition in definitions.items():
        if name.endswith(".Record"):
            wire_type = definition["properties"]["type"]["const"]
            topic = topics.commands if wire_type in aggregate.commands else topics.events
            used_definitions = {
                used_name: _draft_7(definitions[used_name]) for used_name in _used_names(name, definitions)
            }
            record = used_definitions.pop(name)
            yield (
                f"{topic}-{wire_type}",
                {"$schema": _DRAFT_7, "title": wire_type, **record, "definitions": used_definitions},
            )


def _used_names(name: str, definitions: dict[str, Any]) -> list[str]:
    """Return the names of a definition, and of all definitions to which it refers, directly or through others."""
    names = [name]
    for used_name in names:  # the loop itself appends to the list
        text = json.dumps(definitions[used_name])
        names += [other for other in definitions if other not in names and f'"{_REFERENCE}{other}"' in text]
    return names


def _draft_7(schema: Any) -> Any:
    """Return a schema of draft 2020-12 as a schema of draft 7 with closed objects."""
    if not isinstance(schema, dict):
        return [_draft_7(part) for part in schema] if isinstance(schema, list) else schema
    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        match keyword:
            case "properties":
                result |= {keyword: {name: _draft_7(part) for name, part in value.items()}}
                result["additionalProperties"] = False
            case "$ref":
                result[keyword] = value.replace(_REFERENCE, "#/definitions/")
            case "prefixItems":
                result |= {"items": _draft_7(value), "additionalItems": False}
            case "items" if "prefixItems" in schema:
                pass
            case "default" | "enum" | "const":
                result[keyword] = value
            case _:
                result[keyword] = _draft_7(value)
    return result


def _netrc_login(host: str) -> tuple[str, str] | None:
    """Return user and password of a host in `~/.netrc`; None if the file lacks the host, or cannot be read."""
    try:
        login = netrc.netrc().authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return None
    return (login[0], login[2]) if login else None


def _reason(answer: dict[str, Any]) -> str:
    """Return the text of an answer: Confluent's messages about compatibility, Apicurio's reason, or an error."""
    texts = answer.get("messages") or [answer.get("reason") or answer.get("message") or "no reason given"]
    return " ".join("; ".join(map(str, texts)).split())[:1000]
