"""Kafka's properties are translated for librdkafka and for kafka-python; secrets are never shown."""

import pickle

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.support.connections import librdkafka_settings, property_error

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hunter2";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required username='me' password='hunter2' ;"
OAUTH = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'clientId="me" clientSecret="hunter2" scope="kafka";'
)
KERBEROS = (
    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
    'keyTab="/etc/me.keytab" principal="me@REALM" serviceName="kafka";'
)


def test_the_address_alone_is_enough() -> None:
    assert Connection("a:1,b:2").librdkafka() == {"bootstrap.servers": "a:1,b:2"}
    assert Connection("a:1,b:2").kafka_python() == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "PLAINTEXT",
    }


def test_names_that_differ_are_translated() -> None:
    assert librdkafka_settings(
        client_id="me",
        request_timeout_ms="5000",
        max_request_size="2000000",
        fetch_max_wait_ms="50",
        send_buffer_bytes="-1",
        receive_buffer_bytes="65536",
    ) == {
        "client.id": "me",
        "socket.timeout.ms": "5000",
        "message.max.bytes": "2000000",
        "fetch.wait.max.ms": "50",
        "socket.send.buffer.bytes": "0",
        "socket.receive.buffer.bytes": "65536",
    }


def test_kafka_python_gets_known_properties() -> None:
    properties = {
        "client.id": "me",
        "request.timeout.ms": "5000",
        "linger.ms": "5",
        "send.buffer.bytes": "-1",
    }
    config = Connection("h:1", properties).kafka_python()
    assert {"client_id": "me", "request_timeout_ms": 5000}.items() <= config.items()
    assert set(config) == {"bootstrap_servers", "security_protocol", "client_id", "request_timeout_ms"}


@pytest.mark.parametrize(("mechanism", "jaas"), [("PLAIN", PLAIN), ("SCRAM-SHA-512", SCRAM)])
def test_jaas_login_serves_both_clients(mechanism: str, jaas: str) -> None:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas,
    }
    connection = Connection("h:1", properties)
    assert connection.librdkafka() == {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "me",
        "sasl.password": "hunter2",
    }
    config = connection.kafka_python()
    assert (config["sasl_mechanism"], config["sasl_plain_username"], config["sasl_plain_password"]) == (
        mechanism,
        "me",
        "hunter2",
    )
    connection.check_properties()


def test_password_escapes_are_resolved() -> None:
    jaas = r'x.PlainLoginModule required username="me" password="a\"b\\c;=d";'
    assert librdkafka_settings(sasl_jaas_config=jaas)["sasl.password"] == r'a"b\c;=d'


def test_librdkafkas_own_names_serve_both_clients() -> None:
    own = {"sasl.username": "me", "sasl.password": "hunter2", "sasl.mechanisms": "PLAIN"}
    config = Connection("h:1", {**own, "security.protocol": "sasl_plaintext"}).kafka_python()
    assert config["security_protocol"] == "SASL_PLAINTEXT"
    assert (config["sasl_mechanism"], config["sasl_plain_password"]) == ("PLAIN", "hunter2")


def test_oauth_and_kerberos_are_translated() -> None:
    assert librdkafka_settings(sasl_jaas_config=OAUTH) == {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "hunter2",
        "sasl.oauthbearer.scope": "kafka",
    }
    assert librdkafka_settings(sasl_jaas_config=KERBEROS) == {
        "sasl.kerberos.keytab": "/etc/me.keytab",
        "sasl.kerberos.principal": "me@REALM",
        "sasl.kerberos.service.name": "kafka",
    }


def test_kerberos_service_reaches_kafka_python() -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": KERBEROS}
    config = Connection("h:1", properties).kafka_python()
    assert (config["sasl_mechanism"], config["sasl_kerberos_service_name"]) == ("GSSAPI", "kafka")


@pytest.mark.parametrize(
    "jaas",
    [
        "hunter2",
        "x.PlainLoginModule required hunter2;",
        "x.Other required a=hunter2;",
        PLAIN[:-1],
        PLAIN[:-1] + "hunter2;",
    ],
)
def test_bad_jaas_entry_is_not_repeated(jaas: str) -> None:
    error_text = property_error({"sasl.jaas.config": jaas})
    assert error_text.startswith("sasl.jaas.config")
    assert "hunter2" not in error_text


def test_a_login_without_password_is_refused() -> None:
    assert "lacks password" in property_error(
        {"sasl.jaas.config": 'x.ScramLoginModule required username="me";'}
    )


@pytest.mark.parametrize(
    "name",
    ["isolation.level", "acks", "transactional.id", "enable.idempotence", "group.id", "partitioner.class"],
)
def test_reserved_properties_cannot_be_set(name: str) -> None:
    assert f"{name} is set by cqrs itself" in property_error({name: "x"})


def test_unknown_property_is_named() -> None:
    assert "does not know the client property max.poll.recrods" in property_error({"max.poll.recrods": "5"})


def test_bad_value_is_not_repeated() -> None:
    error_text = property_error({"security.protocol": "hunter2"})
    assert "security.protocol" in error_text
    assert "hunter2" not in error_text


def test_checking_is_silent_and_offline(capfd: pytest.CaptureFixture[str]) -> None:
    Connection("127.0.0.1:1", {"linger.ms": "5", "session.timeout.ms": "6000"}).check_properties()
    assert capfd.readouterr() == ("", "")


def test_connection_pickles_without_showing_secrets() -> None:
    connection = Connection(
        "h:1", {"sasl.jaas.config": PLAIN, "ssl.key.password": "hunter2", "client.id": "me"}
    )
    assert pickle.loads(pickle.dumps(connection)) == connection  # noqa: S301  (our own)
    for text in (repr(connection), str(connection), f"{connection}", repr([connection])):
        assert "hunter2" not in text
        assert "'client.id': 'me'" in text
