"""Manifests for Strimzi agree with the topics of `init` and the checks of `doctor`."""

from dataclasses import replace
from typing import Any

import yaml

from cqrs_cli.kafka.topics.acls import RequiredAcl, Role, required_acls
from cqrs_cli.kafka.topics.process_topics import ProcessTopicAccess, ProcessTopics
from cqrs_cli.kafka.topics.strimzi import BROKERS, manifests, manifests_text
from cqrs_cli.kafka.topics.topics import KINDS, TopicPlan, Topics, extra_configs

PLAN = TopicPlan(partitions=12)
BANK = Topics("bank_account", "staging.")
CHECKOUT_ACCESS = ProcessTopicAccess(
    ProcessTopics("checkout", "staging."), ("staging.order.events",), (BANK.commands,)
)
PERSONAL_PLAN = replace(PLAN, personal=True)
CUSTOMER = Topics("customer", "staging.")
MANIFESTS = manifests([(BANK, PLAN), (CUSTOMER, PERSONAL_PLAN)], [CHECKOUT_ACCESS], "shop", "staging.")


def resources(kind: str) -> dict[str, Any]:
    """Return the resources by their name in Kubernetes."""
    return {manifest["metadata"]["name"]: manifest for manifest in MANIFESTS if manifest["kind"] == kind}


def allowed(role: str) -> set[RequiredAcl]:
    """Return the rights of a role's user, in the form of `doctor`."""
    user = resources("KafkaUser")[f"staging.cqrs-{role}"]["spec"]["authorization"]["acls"]
    kinds = {"transactionalId": "transactional-id"}
    return {
        RequiredAcl(operation, kinds.get(resource["type"], resource["type"]), resource["name"], prefixed)
        for acl in user
        for operation in acl["operations"]
        if (resource := acl["resource"])
        for prefixed in [resource["patternType"] == "prefix"]
    }


def test_topics_are_those_of_init() -> None:
    specs = {resource["spec"]["topicName"]: resource["spec"] for resource in resources("KafkaTopic").values()}
    for kind in KINDS:
        spec = specs[BANK.name(kind)]
        assert (spec["partitions"], spec["replicas"]) == (12, 3)
        assert spec["config"] == PLAN.configs(kind, brokers=BROKERS)


def test_personal_fields_have_a_topic_of_keys() -> None:
    specs = {resource["spec"]["topicName"]: resource["spec"] for resource in resources("KafkaTopic").values()}
    assert BANK.keys not in specs
    assert (specs[CUSTOMER.keys]["partitions"], specs[CUSTOMER.keys]["config"]) == (
        12,
        extra_configs("keys", BROKERS),
    )
    assert specs[CUSTOMER.dead_letters]["config"] == PERSONAL_PLAN.configs("dead-letters", brokers=BROKERS)


def test_positions_have_one_partition() -> None:
    spec = resources("KafkaTopic")["staging.process.checkout.positions"]["spec"]
    assert spec["partitions"] == 1
    assert spec["config"] == CHECKOUT_ACCESS.topics.configs(BROKERS)


def test_users_have_the_acls_of_doctor() -> None:
    roles: list[Role] = ["send", "read"]
    required = {
        role: {*required_acls(role, BANK), *required_acls(role, CUSTOMER, personal=True)}
        for role in (*roles, "run")
    }
    assert all(allowed(role) == required[role] for role in roles)
    assert allowed("run") == {*required["run"], *CHECKOUT_ACCESS.required_acls()}


def test_names_are_valid_in_kubernetes() -> None:
    assert "staging.bank-account.dead-letters" in resources("KafkaTopic")
    assert all(manifest["metadata"]["labels"] == {"strimzi.io/cluster": "shop"} for manifest in MANIFESTS)


def test_yaml_has_the_same_manifests() -> None:
    assert list(yaml.safe_load_all(manifests_text(MANIFESTS))) == MANIFESTS
