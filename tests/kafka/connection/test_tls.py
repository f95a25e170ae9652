"""Trust stores and key stores, for librdkafka and for kafka-python. Key material is never shown."""

import ssl
import subprocess
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection.connection import Connection
from tests.support.connections import property_error


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate, its encrypted key, and stores with both, one of each kind."""
    folder = tmp_path_factory.mktemp("pem")
    create_certificate = (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 "
        "-subj /CN=me -days 2 -keyout key.pem -out ca.pem"
    )
    create_store = (
        "pkcs12 -export -in ca.pem -inkey key.pem -passin pass:hunter2 -passout pass:hunter2 -out keys.p12"
    )
    for command in (f"{create_certificate} -passout pass:hunter2", create_store):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    (folder / "keys.pem").write_text((folder / "key.pem").read_text() + (folder / "ca.pem").read_text())
    return folder


@pytest.mark.program
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
    config = connection.librdkafka()
    assert config["ssl.ca.location"] == str(pem / "ca.pem")
    assert config["ssl.certificate.location"] == config["ssl.key.location"] == str(pem / "keys.pem")
    assert config["ssl.endpoint.identification.algorithm"] == "none"
    connection.check_properties()
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
    connection.check_properties()
    context = connection.kafka_python()["ssl_context"]
    assert context.check_hostname
    assert [dict(entry[0] for entry in ca["subject"]) for ca in context.get_ca_certs()] == [
        {"commonName": "me"}
    ]
    assert "PRIVATE KEY" not in repr(connection)


def test_pkcs12_store_is_for_librdkafka(pem: Path) -> None:
    store = {"ssl.keystore.location": str(pem / "keys.p12"), "ssl.keystore.password": "hunter2"}
    connection = Connection("h:1", {"security.protocol": "SSL", **store})
    assert store.items() <= connection.librdkafka().items()
    connection.check_properties()
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
def test_unreadable_stores_are_refused(properties: dict[str, str], kind: str) -> None:
    error_text = property_error(properties)
    assert f"is a {kind} store; librdkafka accepts only" in error_text
    assert "keytool" in error_text


def test_store_type_follows_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "trust").write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    assert "is a JKS store" in property_error({"ssl.truststore.location": str(tmp_path / "trust")})


def test_wrong_key_password_is_not_repeated(pem: Path) -> None:
    stores = {"ssl.keystore.location": str(pem / "keys.pem"), "ssl.key.password": "hunter3"}
    connection = Connection("h:1", {"security.protocol": "SSL", **stores})
    for read_stores in (connection.check_properties, connection.kafka_python):
        with pytest.raises(ConfigurationError) as error:
            read_stores()
        assert "hunter3" not in str(error.value)
