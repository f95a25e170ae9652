"""The login of the embedded broker: one user with a random password, which is stored in files of mode 0600.

With SCRAM, a client proves that it knows the password without sending it. So another program that takes the port of a
stopped broker learns nothing from clients that try to reconnect.
"""

import secrets
from pathlib import Path

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka.connection import credentials
from cqrs_cli.kafka.embedded.files import HOST
from cqrs_cli.settings.java_properties import parse_properties
from cqrs_cli.storage.private import atomic_write

#: The file with the client properties, for Kafka's tools and for `--command-config`. Later commands read the password
#: from this file.
CLIENT_FILE = "client.properties"

#: The same properties by librdkafka's names, for `kcat -F`.
LIBRDKAFKA_FILE = "librdkafka.properties"

USER = "cqrs"

#: RFC 5802 and RFC 7677.
MECHANISM = "SCRAM-SHA-256"

_MODULES = "org.apache.kafka.common.security"
_SCRAM = f'{_MODULES}.scram.ScramLoginModule required username="{USER}" password="{{password}}";'
_PLAIN = (
    f'{_MODULES}.plain.PlainLoginModule required username="{USER}" password="{{password}}"'
    f' user_{USER}="{{password}}";'
)

#: Kafka does not support SCRAM between a broker and its controller, so they use PLAIN, which sends the password. No
#: other program can receive it: broker and controller are one process, which listens on the port before it connects.
_BROKER_SETTINGS = f"""\
listener.security.protocol.map=CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
sasl.mechanism.inter.broker.protocol={MECHANISM}
listener.name.client.sasl.enabled.mechanisms={MECHANISM}
listener.name.client.{MECHANISM.lower()}.sasl.jaas.config={_SCRAM}
sasl.mechanism.controller.protocol=PLAIN
listener.name.controller.sasl.enabled.mechanisms=PLAIN
listener.name.controller.plain.sasl.jaas.config={_PLAIN}
"""


def new_password() -> str:
    """Return a random password. Its characters need no escapes in properties files."""
    return secrets.token_urlsafe(32)


def read_password(folder: Path) -> str | None:
    """Return the password in the client file; None if there is no such file, or it is damaged."""
    try:
        login = credentials.login(parse_properties((folder / CLIENT_FILE).read_text()))
    except (FileNotFoundError, ValueError, ConfigurationError):
        return None
    return login.options.get("password") if login else None


def require_password(folder: Path) -> str:
    """Return the password of a running broker; raises `ConfigurationError` if its file was removed."""
    if (password := read_password(folder)) is None:
        raise ConfigurationError(
            f"{folder / CLIENT_FILE} is missing or damaged: it has the login of the embedded Kafka",
            "restart Kafka, which writes the file: cqrs kafka stop, then cqrs kafka start",
        )
    return password


def wrong_password(folder: Path) -> ConfigurationError:
    """Return the error for a client file with another password than the broker's data, as after a partial restore."""
    return ConfigurationError(
        f"the embedded Kafka rejects the password in {folder / CLIENT_FILE}: it belongs to other data",
        "remove the file, then restart Kafka, which writes a new file: cqrs kafka stop, then cqrs kafka start",
    )


def client_properties(password: str) -> dict[str, str]:
    """Return the client properties of the login, by their Java names."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": _SCRAM.format(password=password),
    }


def write_client_files(folder: Path, port: int, password: str) -> None:
    """Write the files for clients, each atomically."""
    login = {"bootstrap.servers": f"{HOST}:{port}", **client_properties(password)}
    _write(folder / CLIENT_FILE, login)
    del login["sasl.jaas.config"]
    _write(folder / LIBRDKAFKA_FILE, {**login, "sasl.username": USER, "sasl.password": password})


def _write(path: Path, properties: dict[str, str]) -> None:
    with atomic_write(path) as file:
        file.write("".join(f"{name}={value}\n" for name, value in properties.items()).encode())


def broker_settings(password: str) -> str:
    """Return the settings of a broker with a login. They override the settings in `files`."""
    return _BROKER_SETTINGS.format(password=password)


def format_options(password: str) -> list[str]:
    """Return the options of Kafka's storage tool that create the user."""
    return ["--add-scram", f"{MECHANISM}=[name={USER},password={password}]"]


def create_user(bootstrap_server: str, password: str) -> None:
    """Create the user on a running broker without a login; raises `UnavailableError`."""
    from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

    from cqrs_cli.kafka.admin.client import connect
    from cqrs_cli.kafka.connection.cluster import Cluster

    client = connect(Cluster(bootstrap_server))
    try:
        user = UserScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_256, password)
        error = client.alter_user_scram_credentials([user])[USER]
    finally:
        client.close()
    if error is not None:
        raise UnavailableError(f"the embedded Kafka cannot create its user: {error}", "cqrs kafka start")
