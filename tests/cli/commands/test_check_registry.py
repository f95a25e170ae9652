"""A schema registry accepts or rejects the messages of an aggregate, or gives no verdict.

The server of this file has the two calls of Confluent's REST interface. `check --registry` was also tried by hand with
Apicurio 2.6.13, which takes too long to install for a test.
"""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from cqrs_cli.doctor.schema_registry import SchemaRegistry, record_subjects
from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.topics.topics import Topics
from tests.cli.conftest import Cqrs
from tests.core.tally import AGGREGATE, Partition, command, record

INCREMENTED = "counter.events-counter.Incremented"
REJECTION = {"is_compatible": False, "messages": ["PROPERTY_REMOVED at /by", "see docs"]}


class Registry(ThreadingHTTPServer):
    """A registry. `answers` maps the beginning of a path to the (status, body) that replaces the usual answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), RegistryHandler)
        self.schemas: dict[str, Any] = {}
        self.answers: dict[str, tuple[int, object]] = {}
        self.logins: set[str | None] = set()
        self.redirected_logins: list[str | None] = []  # of requests that followed a redirect
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, object]:
        for beginning, answer in self.answers.items():
            if path.startswith(beginning):
                return answer
        if path.startswith("/compatibility/subjects/"):
            known = path.split("/")[3] in self.schemas
            return (200, {"is_compatible": True}) if known else (404, {"error_code": 40401})
        self.schemas[path.split("/")[2]] = json.loads(body["schema"])
        return 200, {"id": len(self.schemas)}


class RegistryHandler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self.server.redirected_logins.append(self.headers["Authorization"])
        self.send_error(404)

    def do_POST(self) -> None:
        self.server.logins.add(self.headers["Authorization"])
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = self.server.answer(self.path, body)
        if answer == "hang":
            self.server.closing.wait(60)
        text = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.closing.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_messages_are_registered_with_write(cqrs: Cqrs, registry: Registry) -> None:
    result = cqrs("check", "counter", "--registry", registry.url, "--topic-prefix", "x.")
    assert result.status == 0 and not registry.schemas
    assert "green  counter  the registry accepts 4 messages" in result.out
    result = cqrs("check", "counter", "--registry", f"{registry.url}/", "--topic-prefix", "x.", "--write")
    assert "the registry has 4 messages" in result.out
    assert f"x.{INCREMENTED}" in registry.schemas and "x.counter.commands-counter.Reset" in registry.schemas


@pytest.mark.parametrize(
    ("path", "answer", "write"),
    [
        (f"/compatibility/subjects/{INCREMENTED}/versions/latest?verbose=true", (200, REJECTION), False),
        (f"/subjects/{INCREMENTED}/versions", (409, {"message": "PROPERTY_REMOVED at /by; see docs"}), True),
        (f"/subjects/{INCREMENTED}/versions", (422, {"reason": "PROPERTY_REMOVED at /by; see docs"}), True),
    ],
)
def test_incompatible_message_is_red(
    cqrs: Cqrs, registry: Registry, path: str, answer: tuple[int, object], write: bool
) -> None:
    cqrs("check", "counter", "--write")
    registry.answers[path] = answer
    result = cqrs("check", "counter", "--registry", registry.url, *(["--write"] * write), "-o", "json")
    (change,) = result.document["aggregates"]["counter"]["changes"]
    assert (result.status, change["level"]) == (1, "red")
    assert change["what"] == (
        f"{INCREMENTED}: the registry does not accept the schema: PROPERTY_REMOVED at /by; see docs"
    )


def test_rejection_without_reason_is_red(cqrs: Cqrs, registry: Registry) -> None:
    registry.answers["/compatibility"] = (200, {"is_compatible": False, "reason": None})
    result = cqrs("check", "counter", "--registry", registry.url)
    assert result.status == 1 and "does not accept the schema: no reason given" in result.out


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        ((200, "<html>"), 3, "is no schema registry: it answered 200"),
        (
            (404, {"message": "no page"}),
            3,
            "it answered 404 no page; name the address below which /subjects is",
        ),
        ((401, {}), 3, "rejects the login; write https://USER:PASSWORD@HOST, or put the login into ~/.netrc"),
        ((302, {}), 3, "redirects to another address; name that address with --registry"),
        ((500, {"message": "store lost"}), 4, "failed: 500 store lost; try again later"),
    ],
)
def test_missing_verdict_is_one_sentence(
    cqrs: Cqrs, registry: Registry, answer: tuple[int, object], status: int, message: str
) -> None:
    registry.answers["/"] = answer
    url = registry.url.replace("//", "//ada:secret@")
    result = cqrs("check", "counter", "--registry", url, "-q", "--write")
    assert (result.status, result.out) == (status, "")
    assert message in result.err and result.err.count("\n") == 1 and "secret" not in result.err
    assert registry.redirected_logins == []
    assert not Path("schemas").exists()


def test_hanging_registry_is_not_awaited(registry: Registry) -> None:
    registry.answers["/"] = (200, "hang")
    with pytest.raises(UnavailableError, match=r"did not answer within 0\.3 s; try again later"):
        SchemaRegistry(registry.url, timeout=0.3).verdict(AGGREGATE, Topics("tally"), register=True)


def test_unknown_registry_is_not_reachable(cqrs: Cqrs) -> None:
    result = cqrs("check", "counter", "--registry", "http://127.0.0.1:1", "-q")
    assert result.status == 4
    assert "the registry http://127.0.0.1:1 is not reachable: [Errno 111] Connection refused" in result.err
    result = cqrs("check", "counter", "--registry", "registry:8081", "-q")
    assert result.status == 2 and "write --registry http://HOST:PORT" in result.err


def test_login_is_sent(
    cqrs: Cqrs, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The login in the address precedes the login in `~/.netrc`."""
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login bob password hidden\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    for url, login in (("//", "bob:hidden"), ("//ada:p%40ss@", "ada:p@ss")):
        registry.logins.clear()
        cqrs("check", "counter", "--registry", registry.url.replace("//", url))
        assert registry.logins == {f"Basic {base64.b64encode(login.encode()).decode()}"}


def test_schemas_describe_what_owners_write() -> None:
    partition = Partition()
    partition.decide(record(0, command(traceparent="x")))
    schemas = dict(record_subjects(AGGREGATE, Topics("tally")))
    assert list(schemas) == [
        "tally.commands-tally.Add",
        "tally.commands-tally.Crash",
        "tally.events-tally.Added",
    ]
    for name, value in (("commands-tally.Add", command()), ("events-tally.Added", partition.events[0][0])):
        schema = schemas[f"tally.{name}"]
        Draft7Validator.check_schema(schema)
        document = json.loads(value)
        assert Draft7Validator(schema).is_valid(document)
        assert not Draft7Validator(schema).is_valid(document | {"data": {"n": 1, "m": 2}})
        assert set(schema["definitions"]) == {name.rpartition(".")[2]}
