"""The ACLs that a client's user needs if the cluster has an authorizer, by role."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.topics.topics import KINDS, Topics

#: The purpose for which a user needs ACLs: the command of the same name, or for `read` the commands `show`, `tail`,
#: `trace`, `replay`, `export`, `verify`, `status`, `top` and `send --dry-run`.
Role = Literal["send", "run", "read", "init", "repartition"]


#: The operations of a role on the keys topic. No role deletes records: owners erase a key by a tombstone.
_KEYS_TOPIC_OPERATIONS: Mapping[Role, tuple[str, ...]] = {
    "send": (),
    "run": ("Read", "Write", "DescribeConfigs"),
    "read": ("Read", "DescribeConfigs"),
    "init": ("Create", "Describe", "DescribeConfigs"),
    "repartition": (),
}


class RequiredAcl(NamedTuple):
    """One operation on one resource, in Kafka's terms: `Write` on `topic` `bank_account.events`."""

    operation: str
    resource: Literal["topic", "group", "transactional-id"]
    name: str
    prefixed: bool = False  # True: `name` is the prefix of the names of several resources

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource} {self.name}{'*' if self.prefixed else ''}"

    def flags(self) -> str:
        """Return the flags of kafka-acls.sh that grant this ACL."""
        prefixed = " --resource-pattern-type prefixed" if self.prefixed else ""
        return f"--operation {self.operation} --{self.resource} '{self.name}'{prefixed}"

    def denied_error(self, role: Role | Literal["dead-letters drop"] | None = None) -> ConfigurationError:
        """Return the error for a user that lacks this ACL."""
        purpose = f", which {role} needs" if role else ""
        return ConfigurationError(
            f"{self} is not allowed{purpose}",
            f"grant it: kafka-acls.sh --add --allow-principal User:NAME {self.flags()}",
        )


def denied_acls_error(missing_acls: Sequence[RequiredAcl], role: Role) -> ConfigurationError:
    """Return the error for a user that lacks these ACLs. `missing_acls` must not be empty."""
    if len(missing_acls) == 1:
        return missing_acls[0].denied_error(role)
    acl_list = "; ".join(map(str, missing_acls))
    return ConfigurationError(
        f"not allowed, which {role} needs: {acl_list}", f"cqrs doctor --for {role} shows how to grant each"
    )


def drop_acls(topics: Topics) -> list[RequiredAcl]:
    """Return the ACLs that `dead-letters drop` needs. They belong to no role, because few users should get Delete."""
    return [RequiredAcl(operation, "topic", topics.dead_letters) for operation in ("Read", "Write", "Delete")]


def required_acls(role: Role, topics: Topics, personal: bool = False) -> list[RequiredAcl]:
    """Return the ACLs that the role needs for one aggregate. In Kafka, Read, Write and Alter include Describe.

    The lineage topic exists only after a repartitioning, but always needs an ACL: without it, a user cannot find out
    whether the topic exists. `personal`: the aggregate has personal fields, so it has a keys topic.
    """
    keys_acls = [
        RequiredAcl(operation, "topic", topics.keys) for operation in _KEYS_TOPIC_OPERATIONS[role] if personal
    ]
    return [*_acls_without_keys(role, topics), *keys_acls]


def _acls_without_keys(role: Role, topics: Topics) -> list[RequiredAcl]:
    """Return the ACLs that the role needs for an aggregate without personal fields."""
    names = [*map(topics.name, KINDS), topics.lineage]
    commands, events, outcomes, dead_letters, deferred = map(topics.name, KINDS)
    match role:
        case "send":
            return [RequiredAcl("Write", "topic", commands), RequiredAcl("Read", "topic", outcomes)]
        case "run":
            return [
                *(
                    RequiredAcl(operation, "topic", name)
                    for name in (commands, events, outcomes, deferred, topics.lineage)
                    for operation in ("Read", "Write")
                ),
                RequiredAcl("Write", "topic", dead_letters),
                *(RequiredAcl("DescribeConfigs", "topic", name) for name in names),
                RequiredAcl("Read", "group", topics.group),
                RequiredAcl("Write", "transactional-id", topics.transactional_ids, prefixed=True),
            ]
        case "read":
            return [
                *(RequiredAcl("Read", "topic", name) for name in names),
                *(RequiredAcl("DescribeConfigs", "topic", name) for name in names),
                RequiredAcl("Describe", "group", topics.group),
            ]
        case "init":
            return [
                *(RequiredAcl("Create", "topic", topics.name(kind)) for kind in KINDS),
                *(
                    RequiredAcl(operation, "topic", name)
                    for name in names
                    for operation in ("Describe", "DescribeConfigs")
                ),
            ]
        case "repartition":
            return [
                *(
                    RequiredAcl(operation, "topic", topics.name(kind))
                    for kind in KINDS
                    for operation in ("Alter", "DescribeConfigs")
                ),
                *(
                    RequiredAcl(operation, "topic", topics.lineage)
                    for operation in ("Create", "Read", "Write", "DescribeConfigs")
                ),
                RequiredAcl("Describe", "group", topics.group),
            ]
