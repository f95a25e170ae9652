"""Translates Kafka's client properties from their Java names to the names of librdkafka and of kafka-python."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection import credentials
from cqrs_cli.kafka.connection.credentials import Login, Tls

#: Properties on which the guarantees depend. Users cannot set them, because `clients.py` sets them.
RESERVED_PROPERTIES = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "check.crcs",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "isolation.level",
        "partitioner",
        "partitioner.class",
        "request.required.acks",
        "transactional.id",
    }
)

#: Properties that make librdkafka load a library into the process.
_FOREIGN_CODE = re.compile(r"plugin\.library\.paths|ssl\.engine\..*|ssl\.providers")

#: Properties of the Python binding whose values are Python objects, so they cannot be in a file.
_OBJECT_PROPERTIES = re.compile(r"default\.topic\.config|logger|\w+_cb|on_\w+")

#: Java's name → librdkafka's name, for properties of the same meaning and unit whose names differ.
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",  # librdkafka's `request.timeout.ms` is a producer's ack timeout
    "send.buffer.bytes": "socket.send.buffer.bytes",
}

_KAFKA_PYTHON_NUMBERS = {
    "connections.max.idle.ms": "connections_max_idle_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "receive.buffer.bytes": "receive_buffer_bytes",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "request.timeout.ms": "request_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "send.buffer.bytes": "send_buffer_bytes",
}

#: The properties of TLS. `credentials.tls` translates them.
_TLS = re.compile(
    r"ssl\.(truststore|keystore)\..*|ssl\.endpoint\.identification\.algorithm"
    r"|ssl\.key\.(password|pem|location)|ssl\.certificate\.(pem|location)|ssl\.ca\.(pem|location)"
)


def librdkafka(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration for confluent-kafka; raises `ConfigurationError` for properties without an equivalent.

    Names that Java and librdkafka share, and librdkafka's own names, are passed on unchanged.
    """
    _require_supported(properties)
    config: dict[str, Any] = {}
    for name, value in properties.items():
        if name != "sasl.jaas.config" and _TLS.fullmatch(name) is None:
            config[_RENAMED.get(name, name)] = value
    for name in ("socket.send.buffer.bytes", "socket.receive.buffer.bytes"):
        if config.get(name) == "-1":  # Java's value for the system's default; librdkafka's is 0
            config[name] = "0"
    if (login := credentials.login(properties)) is not None:
        config |= _librdkafka_login(login)
    return config | _librdkafka_tls(credentials.tls(properties), properties)


def _librdkafka_login(login: Login) -> dict[str, str]:
    options = login.options
    match login.module:
        case "PlainLoginModule" | "ScramLoginModule":
            return {"sasl.username": _option(login, "username"), "sasl.password": _option(login, "password")}
        case "OAuthBearerLoginModule":
            names = {
                "clientId": "sasl.oauthbearer.client.id",
                "clientSecret": "sasl.oauthbearer.client.secret",
                "scope": "sasl.oauthbearer.scope",
            }
            config = {name: options[option] for option, name in names.items() if option in options}
            return {"sasl.oauthbearer.method": "oidc", **config}
        case "Krb5LoginModule":
            names = {
                "principal": "sasl.kerberos.principal",
                "keyTab": "sasl.kerberos.keytab",
                "serviceName": "sasl.kerberos.service.name",
            }
            return {name: options[option] for option, name in names.items() if option in options}
    raise ConfigurationError(
        f"sasl.jaas.config: login module {login.module} is not supported",
        "use PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule or Krb5LoginModule",
    )


def _librdkafka_tls(tls: Tls, properties: Mapping[str, str]) -> dict[str, str]:
    config = {
        "ssl.ca.location": tls.ca_file,
        "ssl.ca.pem": tls.ca_pem,
        "ssl.certificate.location": tls.certificate_file,
        "ssl.certificate.pem": tls.certificate_pem,
        "ssl.key.location": tls.key_file,
        "ssl.key.pem": tls.key_pem,
        "ssl.key.password": tls.key_password,
        "ssl.keystore.location": tls.pkcs12_file,
        "ssl.keystore.password": tls.store_password if tls.pkcs12_file else None,
    }
    if "ssl.endpoint.identification.algorithm" in properties:
        config["ssl.endpoint.identification.algorithm"] = "https" if tls.check_hostname else "none"
    return {name: value for name, value in config.items() if value is not None}


def kafka_python(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration for kafka-python, without properties that it lacks. Raises `ConfigurationError`."""
    _require_supported(properties)
    config: dict[str, Any] = {}
    for name, key in _KAFKA_PYTHON_NUMBERS.items():
        if (value := properties.get(name)) not in (None, "-1"):
            config[key] = _number(name, str(value))
    if "client.id" in properties:
        config["client_id"] = properties["client.id"]
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    config["security_protocol"] = protocol
    if protocol.startswith("SASL_"):
        config |= _kafka_python_login(properties)
    if protocol.endswith("SSL"):
        from cqrs_cli.kafka.connection.tls import ssl_context

        config["ssl_context"] = ssl_context(credentials.tls(properties))
    return config


def _kafka_python_login(properties: Mapping[str, str]) -> dict[str, Any]:
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI")).upper()
    login = credentials.login(properties)
    config: dict[str, Any] = {"sasl_mechanism": mechanism}
    if mechanism == "GSSAPI":
        service = (login.options.get("serviceName") if login else None) or "kafka"
        return {**config, "sasl_kerberos_service_name": properties.get("sasl.kerberos.service.name", service)}
    if mechanism == "OAUTHBEARER":
        raise ConfigurationError(
            "sasl.mechanism OAUTHBEARER is not supported for topic administration",
            "use SCRAM-SHA-512, SCRAM-SHA-256, PLAIN or TLS client certificates",
        )
    if login is not None:
        return {
            **config,
            "sasl_plain_username": _option(login, "username"),
            "sasl_plain_password": _option(login, "password"),
        }
    names = {"sasl.username": "sasl_plain_username", "sasl.password": "sasl_plain_password"}
    if missing_names := [name for name in names if name not in properties]:
        raise ConfigurationError(
            f"sasl.mechanism {mechanism} needs sasl.jaas.config, or {missing_names[0]}",
            "add it to the file that --command-config names",
        )
    return config | {key: properties[name] for name, key in names.items()}


def _option(login: Login, name: str) -> str:
    if name not in login.options:
        raise ConfigurationError(
            f"sasl.jaas.config: {login.module} lacks {name}", 'add username="…" password="…"'
        )
    return login.options[name]


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(
            f"client property {name} is not a number", "write a whole number of milliseconds or bytes"
        ) from None


def _require_supported(properties: Mapping[str, str]) -> None:
    for name, value in properties.items():
        if name in RESERVED_PROPERTIES:
            raise ConfigurationError(
                f"client property {name} is set by cqrs itself: its guarantees depend on it",
                "remove it from -X and from the file that --command-config names",
            )
        if _FOREIGN_CODE.fullmatch(name):
            raise ConfigurationError(
                f"client property {name} is not accepted: cqrs loads no foreign code", "remove it"
            )
        if _OBJECT_PROPERTIES.fullmatch(name):
            raise _rejected_properties(f'No such configuration property: "{name}"')
        if "\0" in name + value or not _is_utf8(name + value):
            raise ConfigurationError(
                f"client property {name} contains bytes that are not text", "write it in UTF-8"
            )


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_properties(configuration: Mapping[str, Any]) -> None:
    """Let librdkafka check names and values of properties, without a connection. Raises `ConfigurationError`, whose
    text contains no value.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    from cqrs_cli.kafka.connection.librdkafka_log import LIBRDKAFKA_LOG

    # Without an address, the client does not connect. With `log_level` 0, it does not also log the error that it
    # raises.
    offline = {name: value for name, value in configuration.items() if name != "bootstrap.servers"}
    try:
        AdminClient({**offline, "log_level": 0}, logger=LIBRDKAFKA_LOG)
    except KafkaException as error:
        raise _rejected_properties(_hide_values(offline.values(), str(error.args[0].str()))) from None
    except (TypeError, ValueError) as error:
        raise _rejected_properties(_hide_values(offline.values(), str(error))) from None


def _hide_values(values: Iterable[object], message: str) -> str:
    """Return librdkafka's message without the values that it quotes. Any value may contain a password, if a line end is
    missing in a properties file.
    """
    for value in sorted(map(str, values), key=len, reverse=True):
        if len(value) > 3:
            message = message.replace(value, "…")
    return message


def _rejected_properties(message: str) -> ConfigurationError:
    unknown_property = re.search(r'No such configuration property: "([^"]+)"', message)
    if unknown_property:
        return ConfigurationError(
            f"librdkafka does not know the client property {unknown_property[1]}",
            "check its spelling, or remove it if only Java clients have it",
        )
    without_values = re.sub(r'Invalid value "[^"]*"', "Invalid value", message)
    return ConfigurationError(f"invalid client properties: {without_values}", "check -X and --command-config")
