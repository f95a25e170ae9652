"""Kafka's properties, said to librdkafka and to kafka-python; secrets said to nobody else."""

import pickle
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection.connection import Connection

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


def librdkafka(**properties: str) -> dict[str, Any]:
    told = Connection(
        "h:1", {name.replace("_", "."): value for name, value in properties.items()}
    ).librdkafka()
    assert told.pop("bootstrap.servers") == "h:1"
    return told


def refusal(properties: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as refused:
        Connection("h:1", properties).check()
    return str(refused.value)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate, its encrypted key, and a store with both of each kind there is."""
    folder = tmp_path_factory.mktemp("pem")
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=me -days 2 -keyout key.pem -out ca.pem"
    stored = (
        "pkcs12 -export -in ca.pem -inkey key.pem -passin pass:hunter2 -passout pass:hunter2 -out keys.p12"
    )
    for command in (f"{made} -passout pass:hunter2", stored):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    (folder / "keys.pem").write_text((folder / "key.pem").read_text() + (folder / "ca.pem").read_text())
    return folder


def test_the_address_alone_is_enough() -> None:
    assert Connection("a:1,b:2").librdkafka() == {"bootstrap.servers": "a:1,b:2"}
    assert Connection("a:1,b:2").kafka_python() == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "PLAINTEXT",
    }


def test_names_that_differ_are_translated() -> None:
    assert librdkafka(
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


def test_kafka_python_is_told_what_it_knows_and_no_more() -> None:
    properties = {
        "client.id": "me",
        "request.timeout.ms": "5000",
        "linger.ms": "5",
        "send.buffer.bytes": "-1",
    }
    told = Connection("h:1", properties).kafka_python()
    assert {"client_id": "me", "request_timeout_ms": 5000}.items() <= told.items()
    assert set(told) == {"bootstrap_servers", "security_protocol", "client_id", "request_timeout_ms"}


@pytest.mark.parametrize(("mechanism", "jaas"), [("PLAIN", PLAIN), ("SCRAM-SHA-512", SCRAM)])
def test_a_login_is_read_from_jaas_for_both_clients(mechanism: str, jaas: str) -> None:
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
    told = connection.kafka_python()
    assert (told["sasl_mechanism"], told["sasl_plain_username"], told["sasl_plain_password"]) == (
        mechanism,
        "me",
        "hunter2",
    )
    connection.check()


def test_quotes_and_backslashes_in_a_password_are_unescaped() -> None:
    jaas = r'x.PlainLoginModule required username="me" password="a\"b\\c;=d";'
    assert librdkafka(sasl_jaas_config=jaas)["sasl.password"] == r'a"b\c;=d'


def test_librdkafkas_own_names_serve_both_clients() -> None:
    own = {"sasl.username": "me", "sasl.password": "hunter2", "sasl.mechanisms": "PLAIN"}
    told = Connection("h:1", {**own, "security.protocol": "sasl_plaintext"}).kafka_python()
    assert told["security_protocol"] == "SASL_PLAINTEXT"
    assert (told["sasl_mechanism"], told["sasl_plain_password"]) == ("PLAIN", "hunter2")


def test_oauth_and_kerberos_logins_are_translated_for_librdkafka() -> None:
    assert librdkafka(sasl_jaas_config=OAUTH) == {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "hunter2",
        "sasl.oauthbearer.scope": "kafka",
    }
    assert librdkafka(sasl_jaas_config=KERBEROS) == {
        "sasl.kerberos.keytab": "/etc/me.keytab",
        "sasl.kerberos.principal": "me@REALM",
        "sasl.kerberos.service.name": "kafka",
    }


def test_kerberos_tells_kafka_python_the_service() -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": KERBEROS}
    told = Connection("h:1", properties).kafka_python()
    assert (told["sasl_mechanism"], told["sasl_kerberos_service_name"]) == ("GSSAPI", "kafka")


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
def test_a_jaas_entry_that_cannot_be_used_is_refused_and_not_repeated(jaas: str) -> None:
    said = refusal({"sasl.jaas.config": jaas})
    assert said.startswith("sasl.jaas.config")
    assert "hunter2" not in said


def test_a_login_without_password_is_refused() -> None:
    assert "lacks password" in refusal({"sasl.jaas.config": 'x.ScramLoginModule required username="me";'})


def test_pem_stores_serve_both_clients(pem: Path) -> None:
    connection = Connection(
        "h:1",
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(pem / "ca.pem"),
            "ssl.keystore.location": str(pem / "keys.pem"),
            "ssl.key.password": "hunter2",
            "ssl.endpoint.identification.algorithm": "",
        },
    )
    told = connection.librdkafka()
    assert told["ssl.ca.location"] == str(pem / "ca.pem")
    assert told["ssl.certificate.location"] == told["ssl.key.location"] == str(pem / "keys.pem")
    assert told["ssl.endpoint.identification.algorithm"] == "none"
    connection.check()
    context = connection.kafka_python()["ssl_context"]
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_pem_text_serves_both_clients(pem: Path) -> None:
    connection = Connection(
        "h:1",
        {
            "security.protocol": "SSL",
            "ssl.truststore.certificates": (pem / "ca.pem").read_text(),
            "ssl.keystore.certificate.chain": (pem / "ca.pem").read_text(),
            "ssl.keystore.key": (pem / "key.pem").read_text(),
            "ssl.key.password": "hunter2",
        },
    )
    connection.check()
    context = connection.kafka_python()["ssl_context"]
    assert context.check_hostname
    assert [dict(entry[0] for entry in ca["subject"]) for ca in context.get_ca_certs()] == [
        {"commonName": "me"}
    ]
    assert "PRIVATE KEY" not in repr(connection)


def test_a_pkcs12_key_store_is_for_librdkafka_alone(pem: Path) -> None:
    store = {"ssl.keystore.location": str(pem / "keys.p12"), "ssl.keystore.password": "hunter2"}
    connection = Connection("h:1", {"security.protocol": "SSL", **store})
    assert store.items() <= connection.librdkafka().items()
    connection.check()
    with pytest.raises(ConfigurationError, match="openssl pkcs12 -in"):
        connection.kafka_python()


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"ssl.keystore.location": "/x/keys.jks"}, "JKS"),
        ({"ssl.truststore.location": "/x/trust.jks"}, "JKS"),
        ({"ssl.truststore.location": "/x/trust", "ssl.truststore.type": "jks"}, "JKS"),
        ({"ssl.truststore.location": "/x/trust.p12"}, "PKCS12"),
    ],
)
def test_stores_that_librdkafka_cannot_read_are_refused(properties: dict[str, str], kind: str) -> None:
    said = refusal(properties)
    assert f"is a {kind} store; librdkafka needs PEM or PKCS12" in said
    assert "keytool" in said


def test_a_store_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "trust").write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    assert "is a JKS store" in refusal({"ssl.truststore.location": str(tmp_path / "trust")})


def test_a_wrong_key_password_is_an_error_without_it(pem: Path) -> None:
    stores = {"ssl.keystore.location": str(pem / "keys.pem"), "ssl.key.password": "hunter3"}
    connection = Connection("h:1", {"security.protocol": "SSL", **stores})
    for judged in (connection.check, connection.kafka_python):
        with pytest.raises(ConfigurationError) as refused:
            judged()
        assert "hunter3" not in str(refused.value)


@pytest.mark.parametrize(
    "name",
    ["isolation.level", "acks", "transactional.id", "enable.idempotence", "group.id", "partitioner.class"],
)
def test_what_the_guarantees_rest_on_cannot_be_set(name: str) -> None:
    assert f"{name} is set by cqrs itself" in refusal({name: "x"})


def test_a_property_that_librdkafka_does_not_know_is_named() -> None:
    assert "does not know the client property max.poll.recrods" in refusal({"max.poll.recrods": "5"})


def test_a_bad_value_is_refused_without_repeating_it() -> None:
    said = refusal({"security.protocol": "hunter2"})
    assert "security.protocol" in said
    assert "hunter2" not in said


def test_checking_says_nothing_and_connects_to_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    Connection("127.0.0.1:1", {"linger.ms": "5", "session.timeout.ms": "6000"}).check()
    assert capfd.readouterr() == ("", "")


def test_a_connection_survives_pickling_and_shows_no_secrets() -> None:
    connection = Connection(
        "h:1", {"sasl.jaas.config": PLAIN, "ssl.key.password": "hunter2", "client.id": "me"}
    )
    assert pickle.loads(pickle.dumps(connection)) == connection  # noqa: S301  (our own)
    for said in (repr(connection), str(connection), f"{connection}", repr([connection])):
        assert "hunter2" not in said
        assert "'client.id': 'me'" in said
