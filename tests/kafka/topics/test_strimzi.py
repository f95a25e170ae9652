"""Manifests for Strimzi agree with the topics of `init` and the checks of `doctor`."""

from dataclasses import replace
from typing import Any

import yaml

from cqrs_cli.kafka.topics.acls import RequiredAcl, Role, required_acls
from cqrs_cli.kafka.topics.process_topics import ProcessTopics, ProcessUse
from cqrs_cli.kafka.topics.strimzi import BROKERS, manifests, manifests_text
from cqrs_cli.kafka.topics.topics import KINDS, TopicPlan, Topics, extra_configs

PLAN = TopicPlan(partitions=12)
BANK = Topics("bank_account", "staging.")
HEARING = ProcessUse(ProcessTopics("checkout", "staging."), ("staging.order.events",), (BANK.commands,))
PERSONAL = replace(PLAN, personal=True)
CUSTOMER = Topics("customer", "staging.")
FOUND = manifests([(BANK, PLAN), (CUSTOMER, PERSONAL)], [HEARING], "shop", "staging.")


def resources(kind: str) -> dict[str, Any]:
    """Return the resources by their name in Kubernetes."""
    return {one["metadata"]["name"]: one for one in FOUND if one["kind"] == kind}


def allowed(role: str) -> set[RequiredAcl]:
    """Return the rights of a role's user, in the form of `doctor`."""
    user = resources("KafkaUser")[f"staging.cqrs-{role}"]["spec"]["authorization"]["acls"]
    kinds = {"transactionalId": "transactional-id"}
    return {
        RequiredAcl(operation, kinds.get(where["type"], where["type"]), where["name"], prefixed)
        for acl in user
        for operation in acl["operations"]
        if (where := acl["resource"])
        for prefixed in [where["patternType"] == "prefix"]
    }


def test_topics_are_those_of_init() -> None:
    specs = {one["spec"]["topicName"]: one["spec"] for one in resources("KafkaTopic").values()}
    for kind in KINDS:
        spec = specs[BANK.name(kind)]
        assert (spec["partitions"], spec["replicas"]) == (12, 3)
        assert spec["config"] == PLAN.configs(kind, brokers=BROKERS)


def test_personal_fields_have_a_topic_of_keys() -> None:
    specs = {one["spec"]["topicName"]: one["spec"] for one in resources("KafkaTopic").values()}
    assert BANK.keys not in specs
    assert (specs[CUSTOMER.keys]["partitions"], specs[CUSTOMER.keys]["config"]) == (
        12,
        extra_configs("keys", BROKERS),
    )
    assert specs[CUSTOMER.dead_letters]["config"] == PERSONAL.configs("dead-letters", brokers=BROKERS)


def test_positions_have_one_partition() -> None:
    spec = resources("KafkaTopic")["staging.process.checkout.positions"]["spec"]
    assert spec["partitions"] == 1
    assert spec["config"] == HEARING.topics.configs(BROKERS)


def test_users_may_what_doctor_wants() -> None:
    roles: list[Role] = ["send", "read"]
    both = {
        role: {*required_acls(role, BANK), *required_acls(role, CUSTOMER, personal=True)}
        for role in (*roles, "run")
    }
    assert all(allowed(role) == both[role] for role in roles)
    assert allowed("run") == {*both["run"], *HEARING.required_acls()}


def test_names_suit_kubernetes() -> None:
    assert "staging.bank-account.dead-letters" in resources("KafkaTopic")
    assert all(one["metadata"]["labels"] == {"strimzi.io/cluster": "shop"} for one in FOUND)


def test_yaml_says_the_same() -> None:
    assert list(yaml.safe_load_all(manifests_text(FOUND))) == FOUND
