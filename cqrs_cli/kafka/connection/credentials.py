"""Reads the credentials of a client from its Java properties: the SASL login, the truststore and the keystore."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.errors import ConfigurationError

_LOGIN = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*);\s*", re.DOTALL
)
_OPTION = re.compile(
    r"""\s*([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL
)


class Login(NamedTuple):
    """A parsed `sasl.jaas.config`."""

    module: str  # class of the login module without its package, such as `ScramLoginModule`
    options: dict[str, str]  # also the password, so `repr` omits the options

    def __repr__(self) -> str:
        return f"Login({self.module})"


def login(properties: Mapping[str, str]) -> Login | None:
    """Return the login in `sasl.jaas.config`; None if the property is not set. Raises `ConfigurationError`, which
    quotes no part of the property, because the property contains a password.
    """
    text = properties.get("sasl.jaas.config")
    if text is None:
        return None
    match = _LOGIN.fullmatch(text)
    if match is None:
        raise _malformed('it is not `<login module> required key="value" …;`')
    options, position = {}, 0
    while option := _OPTION.match(match["options"], position):
        name, double_quoted, single_quoted, unquoted = option.groups()
        quoted = double_quoted if double_quoted is not None else single_quoted
        options[name] = unquoted if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = option.end()
    if match["options"][position:].strip():
        raise _malformed('its options are not key="value" pairs')
    return Login(match["module"].rpartition(".")[2], options)


def _malformed(reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"sasl.jaas.config cannot be read: {reason}", "write it as Kafka's documentation does"
    )


class Tls(NamedTuple):
    """The trusted authorities (`ca_…`), and the client's certificate and key. Each is either a path (`…_file`) or PEM
    text (`…_pem`). A PKCS12 file contains certificate and key.
    """

    ca_file: str | None = None
    ca_pem: str | None = None
    certificate_file: str | None = None
    certificate_pem: str | None = None
    key_file: str | None = None
    key_pem: str | None = None
    pkcs12_file: str | None = None
    store_password: str | None = None
    key_password: str | None = None
    check_hostname: bool = True

    def __repr__(self) -> str:
        return f"Tls({self.ca_file}, {self.certificate_file or self.pkcs12_file})"


def tls(properties: Mapping[str, str]) -> Tls:
    """Return the `ssl.*` properties, which may have the names of Java or of librdkafka. Raises `ConfigurationError` for
    a truststore that is not PEM, and for a keystore that is neither PEM nor PKCS12.
    """
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    truststore = properties.get("ssl.truststore.location")
    if truststore and (truststore_type := _store_type("truststore", truststore, properties)) != "PEM":
        raise _unsupported_store(
            "truststore",
            truststore,
            truststore_type,
            f"keytool -exportcert -rfc -keystore {truststore} -file ca.pem",
        )
    keystore = properties.get("ssl.keystore.location")
    keystore_type = _store_type("keystore", keystore, properties) if keystore else "PEM"
    if keystore and keystore_type not in ("PEM", "PKCS12"):
        raise _unsupported_store(
            "keystore",
            keystore,
            keystore_type,
            f"keytool -importkeystore -srckeystore {keystore} -destkeystore keys.p12",
        )
    pem_keystore = keystore if keystore_type == "PEM" else None
    return Tls(
        ca_file=truststore or properties.get("ssl.ca.location"),
        ca_pem=properties.get("ssl.truststore.certificates") or properties.get("ssl.ca.pem"),
        certificate_file=pem_keystore or properties.get("ssl.certificate.location"),
        certificate_pem=properties.get("ssl.keystore.certificate.chain")
        or properties.get("ssl.certificate.pem"),
        key_file=pem_keystore or properties.get("ssl.key.location"),
        key_pem=properties.get("ssl.keystore.key") or properties.get("ssl.key.pem"),
        pkcs12_file=keystore if keystore_type == "PKCS12" else None,
        store_password=properties.get("ssl.keystore.password"),
        key_password=properties.get("ssl.key.password"),
        check_hostname=algorithm.strip().lower() not in ("", "none"),
    )


def _store_type(store: str, location: str, properties: Mapping[str, str]) -> str:
    """Return JKS, PKCS12 or PEM, according to the properties, else to the content of the file, else to its name."""
    if declared := properties.get(f"ssl.{store}.type"):
        return declared.strip().upper()
    try:
        with Path(location).open("rb") as file:
            first_bytes = file.read(64)
    except OSError:
        first_bytes = b""
    if first_bytes.startswith(b"\xfe\xed\xfe\xed"):  # the magic number of JKS
        return "JKS"
    if first_bytes.startswith(b"\x30"):  # an ASN.1 sequence
        return "PKCS12"
    suffixes = {".jks": "JKS", ".p12": "PKCS12", ".pfx": "PKCS12", ".pkcs12": "PKCS12"}
    return suffixes.get(Path(location).suffix.lower(), "PEM")


def _unsupported_store(
    store: str, location: str, store_type: str, convert_command: str
) -> ConfigurationError:
    accepted = "PEM" if store == "truststore" else "PEM or PKCS12"
    return ConfigurationError(
        f"ssl.{store}.location {location} is a {store_type} store; librdkafka accepts only {accepted} for a {store}",
        f"convert it: {convert_command}",
    )
