"""Every way to log in works, and every refused login exits with 4, at once, in one line that names the remedy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cqrs
from tests.scenarios.secured.broker import SECRET, SecuredBroker
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LOGINS: dict[str, Callable[[SecuredBroker], Path]] = {
    "SCRAM-SHA-512": lambda broker: broker.login("root"),
    "PLAIN": lambda broker: broker.login("root", "PLAIN"),
    "mutual TLS": lambda broker: broker.certificate("root"),
    "PEM in the file": lambda broker: broker.inline_certificate("root"),
}
REFUSED_LOGINS: dict[str, tuple[Callable[[SecuredBroker], Path], str, str]] = {
    "wrong password": (
        lambda broker: broker.login("root", other_password=f"{SECRET}-wrong"),
        "it rejects the login",
        "sasl.jaas.config",
    ),
    "wrong password with PLAIN": (
        lambda broker: broker.login("root", "PLAIN", other_password=f"{SECRET}-wrong"),
        "it rejects the login",
        "sasl.jaas.config",
    ),
    "unknown user": (lambda broker: broker.login("nobody"), "it rejects the login", "sasl.jaas.config"),
    "a mechanism that is off": (
        lambda broker: broker.login("root", **{"sasl.mechanism": "SCRAM-SHA-256"}),
        "it accepts no login with SCRAM-SHA-256: it accepts ",
        "sasl.mechanism",
    ),
    "wrong authority": (
        lambda broker: broker.login(
            "root", **{"ssl.truststore.location": str(broker.foreign_authority.certificate)}
        ),
        "its certificate is not trusted",
        "ssl.truststore.location",
    ),
    "a certificate for another host": (
        lambda broker: broker.file("ELSEWHERE", "SSL"),
        "its certificate is not trusted",
        "connect to a name in the certificate",
    ),
    "an expired certificate of our own": (
        lambda broker: broker.certificate("late", days=-1),
        "it rejects the certificate of this client",
        "ssl.keystore.location",
    ),
    "a certificate of a stranger's": (
        lambda broker: broker.certificate("intruder", authority=broker.foreign_authority),
        "it rejects the certificate of this client",
        "ssl.keystore.location",
    ),
    "no certificate": (
        lambda broker: broker.file("MUTUAL", "SSL"),
        "it rejects the certificate of this client",
        "ssl.keystore.location",
    ),
    "no TLS to a port for TLS": (
        lambda broker: broker.file("SASL", "PLAINTEXT"),
        "accepts TLS only",
        "security.protocol",
    ),
    "TLS to a port without": (lambda broker: broker.file("PLAINTEXT", "SSL"), "TLS", "security.protocol"),
    "no login": (lambda broker: broker.file("SASL", "SSL"), "it requires a login", "security.protocol"),
}

#: Commands that start with librdkafka, that start with kafka-python, and that check everything.
COMMANDS = (("status", "counter"), ("init", "counter"), ("doctor",))


@pytest.mark.parametrize("login", LOGINS)
def test_every_mechanism_admits_all_clients(
    secured: SecuredBroker, cqrs: Cqrs, prefix: str, login: str
) -> None:
    config = str(LOGINS[login](secured))

    def run_json(*arguments: str) -> Any:
        result = cqrs(*arguments, "--command-config", config, "--topic-prefix", prefix, "-q", "-o", "json")
        assert result.status == 0, result.err + result.out
        assert SECRET not in result.out
        return result.document if result.out else None

    assert {topic["result"] for topic in run_json("init", "counter")["topics"]} == {"created"}
    assert run_json("send", "counter", "a", "Increment")["aggregate"] == "counter"
    assert run_json("status", "counter")["lag"] == 1
    assert run_json("tail", "counter", "events") is None


@pytest.mark.parametrize("case", REFUSED_LOGINS)
def test_refused_logins_are_explained(secured: SecuredBroker, cqrs: Cqrs, case: str) -> None:
    file, reason, hint = REFUSED_LOGINS[case]
    config = file(secured)
    for command in COMMANDS:

        def try_command(command: tuple[str, ...] = command) -> Any:
            """Return the result, or None if the broker was too slow for an answer."""
            result = cqrs(*command, "--command-config", str(config), "-q")
            return None if "does not answer in time" in result.err + result.out else result

        result = eventually(try_command)
        assert result.status == 4, (command, result)
        output = result.err if command != ("doctor",) else result.out
        assert reason in output and hint in output, output
        assert result.err.count("\n") == (command != ("doctor",))
        assert SECRET not in result.out + result.err


@pytest.mark.covers("no-foreign-code")
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_tracebacks_and_logs_hide_secrets(secured: SecuredBroker, cqrs: Cqrs, mechanism: str) -> None:
    config = str(secured.login("root", mechanism, other_password=f"{SECRET}-wrong"))
    for command in COMMANDS:
        for form in ("text", "json"):
            result = cqrs(*command, "--command-config", config, "-v", "-o", form, "-X", "debug=all")
            assert result.status == 4
            assert SECRET not in result.out + result.err
