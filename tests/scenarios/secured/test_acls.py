"""Each role works with exactly the ACLs of docs/security.md, and `doctor` names each ACL that is revoked."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest

from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.client.queries.dead_letters import read_letters
from cqrs_cli.client.queries.operations import drop_letters
from cqrs_cli.deciding.repartition import repartition
from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.jobs.verify.driver import verify_in_process
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.topics.acls import RequiredAcl, Role, drop_acls, required_acls
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.keyspace.added_partitions import create_lineage_topic
from cqrs_cli.scans.verify.plan import plan_verify
from cqrs_cli.settings.settings import load_settings
from tests.cli.conftest import Cqrs
from tests.scenarios.secured.acls import User, acls_for_topics, documented_acls, key_topic_acls
from tests.scenarios.secured.broker import SecuredBroker
from tests.support.commands import command, increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_owners
from tests.support.waiting import eventually


@pytest.mark.parametrize("role", get_args(Role))
def test_page_lists_the_acls_of_each_role(role: Role) -> None:
    assert sorted(documented_acls(role)) == sorted(required_acls(role, Topics("bank_account")))
    prefixed = Topics("bank_account", "shop.")
    assert sorted(acls_for_topics(documented_acls(role), prefixed)) == sorted(required_acls(role, prefixed))


def test_page_lists_the_acls_on_keys() -> None:
    topics = Topics("bank_account")
    for role in get_args(Role):
        acls = [*required_acls(role, topics), *key_topic_acls(role)]
        assert sorted(acls) == sorted(required_acls(role, topics, personal=True))


def counters_with_lineage(secured: SecuredBroker, prefix: str, folder: Path) -> TopicHarness:
    """Return topics that include the lineage topic, so that all ACLs can be checked."""
    counters = TopicHarness(secured.administrator, prefix, folder)
    with Admin(secured.administrator) as admin:
        create_lineage_topic(admin, counters.topics)
    return counters


MakeUser = Callable[[str, Topics, Role], User]


@pytest.fixture(scope="module")
def topics(secured: SecuredBroker) -> Topics:
    topics = Topics("counter", f"{secured.folder.name}.acls.")
    with Admin(secured.administrator) as admin:
        ensure_topics(admin, topics, TopicPlan(partitions=1))
        create_lineage_topic(admin, topics)  # most ACLs on a missing topic cannot be checked
    return topics


@pytest.fixture(scope="module")
def make_user(secured: SecuredBroker) -> Iterator[MakeUser]:
    """A function that creates users."""
    users: list[User] = []

    def make(name: str, topics: Topics, role: Role) -> User:
        users.append(User(secured, name, topics, role))
        return users[-1]

    yield make
    for user in users:
        user.admin.close()


@pytest.fixture(scope="module", params=get_args(Role))
def user(request: pytest.FixtureRequest, make_user: MakeUser, topics: Topics) -> User:
    return make_user(f"u-{request.param}", topics, request.param)


@pytest.mark.kafka
@pytest.mark.slow
def test_doctor_accepts_the_documented_acls(user: User) -> None:
    assert user.doctor_missing_acls() == set()
    assert {check.status for check in user.checks()} == {"ok"}


@pytest.mark.kafka
@pytest.mark.slow
def test_doctor_names_each_missing_acl(user: User) -> None:
    for acl in user.acls:
        user.revoke(acl)
        missing_acls = user.doctor_missing_acls()
        assert str(acl) in missing_acls
        assert missing_acls <= {str(other) for other in user.acls if other.name == acl.name}
        user.restore(acl)


@pytest.mark.kafka
@pytest.mark.slow
def test_init_needs_no_earlier_topics(secured: SecuredBroker, make_user: MakeUser) -> None:
    topics = Topics("counter", f"{secured.folder.name}.new.")
    operator = make_user("operator", topics, "init")
    with Admin(operator.connection) as admin:
        assert {topic.result for topic in ensure_topics(admin, topics, TopicPlan())} == {"created"}


@pytest.mark.kafka
@pytest.mark.slow
def test_repartition_names_missing_acls_first(secured: SecuredBroker, make_user: MakeUser) -> None:
    topics = Topics("counter", f"{secured.folder.name}.grown.")
    with Admin(secured.administrator) as admin:
        ensure_topics(admin, topics, TopicPlan(partitions=1))
    operator = make_user("grower", topics, "repartition")
    for acl in (
        RequiredAcl("Alter", "topic", topics.commands),
        RequiredAcl("Create", "topic", topics.lineage),
    ):
        operator.revoke(acl)
        with pytest.raises(ConfigurationError, match="which repartition needs") as error_info:
            repartition(operator.connection, topics, 2, "murmur2")
        assert str(acl) in error_info.value.message
        operator.restore(acl)
    assert repartition(operator.connection, topics, 2, "murmur2").before == 1


@pytest.mark.kafka
@pytest.mark.slow
def test_run_names_missing_acls_first(
    secured: SecuredBroker, make_user: MakeUser, tmp_path: Path, prefix: str
) -> None:
    counters = counters_with_lineage(secured, prefix, tmp_path)
    runner = make_user(f"{prefix}runner", counters.topics, "run")
    counters.send(*increment_commands(3))
    counters.connection = runner.connection
    run_plan(counters.plan())
    for acl in runner.acls:
        runner.revoke(acl)
        with pytest.raises(ConfigurationError, match=re.escape(str(acl))) as error_info:
            counters.plan()
        assert "not allowed" in error_info.value.message and "\n" not in str(error_info.value)
        runner.restore(acl)
    assert len(counters.outcomes()) == 3


@pytest.mark.kafka
@pytest.mark.slow
def test_drop_names_missing_acls_first(
    secured: SecuredBroker, make_user: MakeUser, tmp_path: Path, prefix: str
) -> None:
    counters = TopicHarness(secured.administrator, prefix, tmp_path)
    counters.send(command("counter.Fly", "a", "fly-1"))
    run_plan(counters.plan())
    topics, now = counters.topics, time.time_ns() // 1_000_000
    operator = make_user(f"{prefix}operator", topics, "read")
    read, *further_acls = drop_acls(topics)
    assert read in operator.acls
    for acl in further_acls:
        letters = list(read_letters(operator.connection, topics, lambda letter: True))
        with pytest.raises(ConfigurationError, match=f"{acl} is not allowed, which dead-letters drop needs"):
            drop_letters(operator.connection, topics, letters, now)
        assert len(counters.records("dead-letters")) == 1  # without a record of the drop
        operator.acls.append(acl)
        operator.restore(acl)
    assert drop_letters(operator.connection, topics, letters, now) == 1


@pytest.mark.kafka
@pytest.mark.slow
def test_losing_an_acl_ends_the_run(
    secured: SecuredBroker, make_user: MakeUser, tmp_path: Path, prefix: str
) -> None:
    counters = TopicHarness(secured.administrator, prefix, tmp_path)
    runner = make_user(f"{prefix}runner", counters.topics, "run")
    counters.connection = runner.connection
    with running_owners(counters.plan(once=False)) as owner:
        counters.send(*increment_commands(3))
        eventually(lambda: counters.stable_end("outcomes") > 0)
        lost_acl = RequiredAcl("Write", "topic", counters.topics.outcomes)
        runner.revoke(lost_acl)
        counters.send(*increment_commands(1, first=3))
        error = owner.error()
    assert isinstance(error, ConfigurationError)
    assert str(lost_acl) in error.message
    runner.restore(lost_acl)
    run_plan(counters.plan())
    assert [outcome.data.status for outcome in counters.outcomes()] == ["accepted"] * 4


@pytest.mark.kafka
@pytest.mark.slow
def test_a_reader_may_verify(
    secured: SecuredBroker, make_user: MakeUser, tmp_path: Path, prefix: str
) -> None:
    counters = counters_with_lineage(secured, prefix, tmp_path)
    counters.send(*increment_commands(3))
    run_plan(counters.plan())
    reader = make_user(f"{prefix}auditor", counters.topics, "read")
    settings = load_settings({"command_config": secured.login(reader.name)}, secured.folder)
    report = verify_in_process(plan_verify(reader.connection, counters.topics, settings))
    assert (report.violations, report.total("commands")) == ([], 3)
    for acl in reader.acls:
        reader.revoke(acl)
        with pytest.raises(ConfigurationError, match=re.escape(str(acl))) as error_info:
            plan_verify(reader.connection, counters.topics, settings)
        assert "not allowed" in error_info.value.message and "\n" not in str(error_info.value)
        reader.restore(acl)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "command", "lacking_acl"),
    [
        ("send", ("send", "counter", "a", "Increment"), "Write on topic {}commands"),
        ("send", ("send", "counter", "a", "Increment", "--wait"), "Read on topic {}outcomes"),
        ("read", ("show", "counter", "a"), "Read on topic {}events"),
        ("read", ("tail", "counter", "outcomes"), "Read on topic {}outcomes"),
        ("read", ("status", "counter"), "Describe on group cqrs.{}commands"),
        ("init", ("init", "counter"), "DescribeConfigs on topic {}events"),
    ],
)
def test_other_commands_name_missing_acls(
    secured: SecuredBroker,
    make_user: MakeUser,
    topics: Topics,
    cqrs: Cqrs,
    role: Role,
    command: tuple[str, ...],
    lacking_acl: str,
) -> None:
    user = make_user(f"lacks-{'-'.join(command)}", topics, role)
    acl_name = lacking_acl.format(f"{topics.prefix}counter.")
    (acl,) = (acl for acl in user.acls if str(acl) == acl_name)
    user.revoke(acl)
    config = str(secured.login(user.name))
    result = cqrs(*command, "--command-config", config, "--topic-prefix", topics.prefix, "-q")
    assert result.status == 3, result.err
    assert f"error: {acl_name} is not allowed" in result.err and "kafka-acls.sh" in result.err
    assert result.err.count("\n") == 1


@pytest.mark.kafka
@pytest.mark.slow
def test_fatal_authorization_error_names_the_acl(
    secured: SecuredBroker, make_user: MakeUser, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    user = make_user("lacks-write", topics, "send")
    user.revoke(RequiredAcl("Write", "topic", topics.commands))
    with CommandProducer(user.connection, "murmur2") as producer:

        def is_refused() -> bool:
            producer.poll()
            return "Failed to acquire idempotence PID" in caplog.text

        eventually(is_refused)
        with pytest.raises(ConfigurationError, match=f"Write on topic {topics.commands} is not allowed"):
            producer.send(topics.commands, b"a", b"{}")
            producer.flush()


@pytest.mark.kafka
@pytest.mark.slow
def test_error_of_queued_command_names_acl(
    secured: SecuredBroker, make_user: MakeUser, topics: Topics
) -> None:
    """The fatal error comes after the command was queued: librdkafka purges it."""
    user, errors = make_user("only-reads", topics, "read"), list[CqrsError]()
    with CommandProducer(user.connection, "murmur2") as producer:
        producer.send(topics.commands, b"a", b"{}", lambda *_: None, errors.append)
        producer.flush()
    (error,) = errors
    assert f"Write on topic {topics.commands} is not allowed" in error.message
