"""Grants of ACLs: the commands of docs/security.md, parsed as kafka-acls.sh parses them."""

import argparse
import re
import shlex
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from cqrs_cli.doctor.check import Check
from cqrs_cli.doctor.cluster import check_cluster
from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.acls import RequiredAcl, Role
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.settings.settings import load_settings
from tests.scenarios.secured.broker import SecuredBroker
from tests.support import ROOT
from tests.support.waiting import eventually

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def documented_acls(role: Role, personal: bool = False) -> list[RequiredAcl]:
    """Return the ACLs that the commands below the role's heading grant.

    With `personal`, the ACLs on the keys topic are included.
    """
    section = re.split(r"^### ", PAGE, flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith(f"{role}: "))
    lines = re.findall(r"^kafka-acls\.sh (.*)$", text, re.MULTILINE)
    acls = [acl for line in lines for acl in acls_of_command(line)]
    return [*acls, *key_topic_acls(role)] if personal else acls


def key_topic_acls(role: Role) -> list[RequiredAcl]:
    """Return the rights that the page grants to this role on the keys topic."""
    lines = re.findall(rf"^kafka-acls\.sh (.* User:{role.upper()} .*)$", PAGE, re.MULTILINE)
    return [acl for line in lines for acl in acls_of_command(line)]


def acls_of_command(line: str) -> Iterable[RequiredAcl]:
    """Return the ACLs that one call of kafka-acls.sh grants."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    for name in ("operation", "topic", "group", "transactional-id"):
        parser.add_argument(f"--{name}", action="append", default=[])
    parser.add_argument("--resource-pattern-type", default="literal", choices=["literal", "prefixed"])
    arguments = parser.parse_args(shlex.split(line))
    prefixed = arguments.resource_pattern_type == "prefixed"
    for operation in arguments.operation:
        yield from (RequiredAcl(operation, "topic", name, prefixed) for name in arguments.topic)
        yield from (RequiredAcl(operation, "group", name, prefixed) for name in arguments.group)
        yield from (
            RequiredAcl(operation, "transactional-id", name, prefixed) for name in arguments.transactional_id
        )


def grant(broker: SecuredBroker, user: str, acls: Iterable[RequiredAcl]) -> None:
    """Grant ACLs to a user."""
    futures = broker.client.create_acls([_acl(user, acl) for acl in acls])
    assert futures["failed"] == []


def revoke(broker: SecuredBroker, user: str, acl: RequiredAcl) -> None:
    """Revoke an ACL of a user, which must have it."""
    from kafka import admin

    kafka_acl = _acl(user, acl)
    acl_filter = admin.ACLFilter(
        kafka_acl.principal,
        kafka_acl.host,
        kafka_acl.operation,
        kafka_acl.permission_type,
        kafka_acl.resource_pattern,
    )
    ((_, matching, _),) = broker.client.delete_acls([acl_filter])
    assert len(matching) == 1


def _acl(user: str, acl: RequiredAcl) -> Any:
    from kafka import admin

    operation = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", acl.operation).upper()
    kind = admin.ACLResourcePatternType.PREFIXED if acl.prefixed else admin.ACLResourcePatternType.LITERAL
    resource = admin.ResourceType[acl.resource.replace("-", "_").upper()]
    return admin.ACL(
        f"User:{user}",
        "*",
        admin.ACLOperation[operation],
        admin.ACLPermissionType.ALLOW,
        admin.ResourcePattern(resource, acl.name, kind),
    )


def acls_for_topics(acls: Iterable[RequiredAcl], topics: Topics) -> list[RequiredAcl]:
    """Return the page's ACLs, which are for `bank_account` without a prefix, for other topics."""
    documented_prefix = "bank_account."
    return [
        acl._replace(name=acl.name.replace(documented_prefix, f"{topics.prefix}{topics.aggregate}."))
        for acl in acls
    ]


class User:
    """A user with the rights of a role, and no others."""

    def __init__(
        self, broker: SecuredBroker, name: str, topics: Topics, role: Role, personal: bool = False
    ) -> None:
        self.broker, self.name, self.topics, self.role = broker, name, topics, role
        broker.add_users(name)
        self.acls = acls_for_topics(documented_acls(role, personal), topics)
        grant(broker, name, self.acls)
        settings = load_settings({"command_config": broker.login(name)}, broker.folder)
        self.connection = Connection(broker.address("SASL"), settings.client_properties())
        self.admin: Admin = eventually(self._open_admin)
        eventually(lambda: not self.lacking_acls())

    def _open_admin(self) -> Any:
        """Return an admin client, or None while the broker does not know the user yet."""
        try:
            return Admin(self.connection)
        except UnavailableError:
            return None

    def lacking_acls(self) -> list[RequiredAcl]:
        """Return the ACLs that the user lacks now. A change takes the broker a moment."""
        return self.admin.missing_acls(self.acls)

    def revoke(self, acl: RequiredAcl) -> None:
        revoke(self.broker, self.name, acl)
        eventually(self.lacking_acls)

    def restore(self, acl: RequiredAcl) -> None:
        grant(self.broker, self.name, [acl])
        eventually(lambda: not self.lacking_acls())

    def checks(self) -> list[Check]:
        window, roles = timedelta(hours=24), (self.role,)
        return list(check_cluster(self.connection, [self.topics], window, roles, is_embedded=True))

    def doctor_missing_acls(self) -> set[str]:
        """Return the ACLs that this user lacks, as `doctor` reports them."""
        missing_acls = [check for check in self.checks() if check.name == "acls" and check.status == "fail"]
        assert all(
            check.exit_code == 3 and f", which {self.role} needs" in check.detail for check in missing_acls
        )
        return {check.detail.partition(" is not allowed")[0] for check in missing_acls}
