"""A real broker that requires TLS and a login, and refuses every request without an ACL.

SASL        TLS, and a login with SCRAM-SHA-512 or PLAIN
MUTUAL      TLS on both sides: the principal is the common name of the client's certificate
ELSEWHERE   TLS with a certificate for another host
PLAINTEXT   for the broker itself and for the tests' own administration: a super user
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from cqrs_cli.kafka.admin.client import connect
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.embedded import jars
from cqrs_cli.kafka.embedded import process as broker_process
from cqrs_cli.system import process
from cqrs_cli.system.java import find_java
from tests.scenarios.secured.certificates import Authority

#: Part of every password, so that one search finds all of them. Each password also has characters that files and JAAS
#: must escape.
SECRET = "Hush-9f2c"

_MODULES = {
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
}

_SETTINGS = """\
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={listeners}
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_SSL,MUTUAL:SSL,ELSEWHERE:SSL
listener.name.sasl.sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
listener.name.sasl.scram-sha-512.sasl.jaas.config={scram} required;
listener.name.sasl.plain.sasl.jaas.config={plain} required user_root={password};
listener.name.sasl.ssl.keystore.location={broker}
listener.name.mutual.ssl.keystore.location={broker}
listener.name.mutual.ssl.client.auth=required
listener.name.elsewhere.ssl.keystore.location={elsewhere}
ssl.keystore.type=PEM
ssl.truststore.type=PEM
ssl.truststore.location={ca}
ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:root
"""


def password(user: str) -> str:
    return f'#{SECRET}"{user}\\ ;=!'


def _quoted(text: str) -> str:
    """Quote a text for JAAS in a properties file."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'.replace("\\", "\\\\")


class SecuredBroker:
    """The running broker. `folder` holds the certificates and the files for `--command-config`."""

    def __init__(self, folder: Path, ports: dict[str, int]) -> None:
        self.folder, self.ports = folder, ports
        self.authority, self.foreign_authority = Authority(folder, "ca"), Authority(folder, "stranger")

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    @property
    def administrator(self) -> Connection:
        """A connection that may do everything."""
        return Connection(self.address("PLAINTEXT"))

    @cached_property
    def client(self) -> Any:
        """The administrator's client of kafka-python."""
        return connect(self.administrator)

    def login(
        self,
        user: str,
        mechanism: str = "SCRAM-SHA-512",
        other_password: str | None = None,
        **properties: str,
    ) -> Path:
        """Return the file of client properties for the listener SASL.

        `other_password` replaces the user's password by a wrong password.
        """
        secret = other_password or password(user)
        jaas = f"{_MODULES[mechanism]} required username={_quoted(user)} password={_quoted(secret)};"
        return self.file(
            "SASL", "SASL_SSL", **{"sasl.mechanism": mechanism, "sasl.jaas.config": jaas, **properties}
        )

    def certificate(self, user: str, days: int = 2, authority: Authority | None = None) -> Path:
        """Return the file of client properties for the listener MUTUAL."""
        pem_file = (authority or self.authority).issue(user, days=days)
        return self.file(
            "MUTUAL", "SSL", **{"ssl.keystore.type": "PEM", "ssl.keystore.location": str(pem_file)}
        )

    def inline_certificate(self, user: str) -> Path:
        """Return client properties for the listener MUTUAL, with certificates and key inside the file."""
        key, certificate = self.authority.issue(user).read_text().split("-----BEGIN CERTIFICATE", 1)
        texts = {
            "ssl.truststore.certificates": self.authority.certificate.read_text(),
            "ssl.keystore.certificate.chain": f"-----BEGIN CERTIFICATE{certificate}",
            "ssl.keystore.key": key,
        }
        escaped = {name: text.replace("\n", "\\n") for name, text in texts.items()}
        return self.file("MUTUAL", "SSL", **{"ssl.truststore.location": "", **escaped})

    def file(self, listener: str, protocol: str, **properties: str) -> Path:
        """Write a file of client properties, which include the broker's address."""
        settings = {
            "bootstrap.servers": self.address(listener),
            "security.protocol": protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            **properties,
        }
        path = self.folder / f"client-{len(list(self.folder.glob('client-*')))}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items() if value))
        return path

    def add_users(self, *names: str) -> None:
        """Add users who may log in with SCRAM."""
        from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

        users = [
            UserScramCredentialUpsertion(name, ScramMechanism.SCRAM_SHA_512, password(name)) for name in names
        ]
        futures = self.client.alter_user_scram_credentials(users)
        assert set(futures.values()) == {None}, futures


@contextmanager
def secured(folder: Path) -> Iterator[SecuredBroker]:
    """Run the broker while the block lasts."""
    java = find_java()
    library = jars.ensure_jars(lambda _: None)
    cluster_id = broker_process.format_data(java, library, folder)
    free_ports = [port for _ in range(3) for port in broker_process.choose_ports(None)]
    ports = dict(zip(("PLAINTEXT", "CONTROLLER", "SASL", "MUTUAL", "ELSEWHERE"), free_ports, strict=False))
    broker = SecuredBroker(folder, ports)
    broker_ports = (ports["PLAINTEXT"], ports["CONTROLLER"])
    state = broker_process.spawn_broker(java, library, folder, cluster_id, broker_ports, _settings(broker))
    try:
        broker_process.wait_until_ready(folder, state, 0)
        broker.add_users("root")
        yield broker
        broker.client.close()
    finally:
        process.terminate(state.pid, state.born, timeout=0)


def _settings(broker: SecuredBroker) -> str:
    clients = [name for name in broker.ports if name != "CONTROLLER"]
    return _SETTINGS.format(
        listeners=",".join(f"{name}://{broker.address(name)}" for name in clients),
        controller=broker.ports["CONTROLLER"],
        scram=_MODULES["SCRAM-SHA-512"],
        plain=_MODULES["PLAIN"],
        password=_quoted(password("root")),
        broker=broker.authority.issue("broker", "IP:127.0.0.1"),
        elsewhere=broker.authority.issue("elsewhere", "DNS:kafka.invalid"),
        ca=broker.authority.certificate,
    )
