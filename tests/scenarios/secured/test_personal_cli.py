"""`cqrs erase` and `cqrs keys` on a secured broker, each user with the ACLs of docs/security.md."""

import json
from pathlib import Path

import pytest

from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.keys.address import keyring_at
from tests.cli.conftest import CommandResult, Cqrs
from tests.deciding.customers import PERSONAL_TEXT
from tests.scenarios.secured.acls import User, documented, grant, renamed, take_away
from tests.scenarios.secured.broker import Secured
from tests.scenarios.secured.kafka_users import a_user, allowed
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_owners
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def people(cqrs: Cqrs, secured: Secured, made: list[User], shop: TopicHarness) -> TopicHarness:
    """The shop's commands, decided by a user with the role `run`.

    The shop's folder becomes a project with the keyring.
    """
    code = (ROOT / "tests/core/personal/customer.py").read_text().partition("\nCUSTOMER = ")[0]
    (shop.folder / "people").mkdir()
    (shop.folder / "people/customer.py").write_text(code)
    settings = {"aggregates": "people", "topic_prefix": shop.topics.prefix, "keyring": "file:ring.json"}
    lines = (f'{name} = "{value}"\n' for name, value in settings.items())
    (shop.folder / "cqrs.toml").write_text("".join(lines))
    shop.connection = allowed(shop, a_user(made, secured, shop, "run"))
    run_plan(shop.plan())
    return shop


def by(cqrs: Cqrs, user: User, *arguments: str) -> CommandResult:
    return cqrs(*arguments, "--command-config", str(user.broker.login(user.name)))


def allow_reading(user: User) -> None:
    """Grant the ACLs of the role `read` too."""
    more = renamed(documented("read", personal=True), user.topics)
    user.needs = [*user.needs, *(need for need in more if need not in user.needs)]
    grant(user.broker, user.name, more)
    eventually(lambda: not user.lacking())


def test_erasing_takes_what_send_needs(
    secured: Secured, made: list[User], people: TopicHarness, cqrs: Cqrs
) -> None:
    """Sending an erasure needs the role `send`. Previewing it and waiting for its event also needs the role `read`."""
    sender = a_user(made, secured, people, "send")
    assert by(cqrs, sender, "erase", "customer", "ann", "--dry-run").status == 3
    with running_owners(people.plan(once=False)):
        blind = by(cqrs, sender, "erase", "customer", "ann", "-o", "json")
        allow_reading(sender)
        seeing = by(cqrs, sender, "erase", "customer", "bob", "-o", "json")
    for user in (blind, seeing):
        assert (user.status, user.document["type"]) == (0, "cqrs.Erase.accepted"), user.err
    unread = f"Read on topic {people.topics.events}"
    assert [f"{unread} is not allowed" in user.err for user in (blind, seeing)] == [True, False]
    lines = [json.loads(line) for line in Path("erasures.ndjson").read_text().splitlines()]
    assert [(line["id"], "key" in line) for line in lines] == [("ann", False), ("bob", True)]
    result = by(cqrs, sender, "erase", "customer", "ann", "--dry-run", "-o", "json")
    assert (result.status, result.document["events"]) == (0, 2) and PERSONAL_TEXT not in result.out


def test_lost_right_to_send_is_named(
    secured: Secured, made: list[User], people: TopicHarness, cqrs: Cqrs
) -> None:
    sender = a_user(made, secured, people, "send")
    allow_reading(sender)
    take_away(secured, sender.name, RequiredAcl("Write", "topic", people.topics.commands))
    eventually(sender.lacking)
    refused = by(cqrs, sender, "erase", "customer", "ann")
    assert refused.status == 3, refused.err
    assert people.topics.commands in refused.err


def test_rotating_takes_no_right(
    secured: Secured, made: list[User], people: TopicHarness, cqrs: Cqrs
) -> None:
    """Rotation changes the keyring, which is not in Kafka. Counting the keys under each KEK needs the role `read`."""
    reader = a_user(made, secured, people, "read")
    rotated = cqrs("keys", "rotate", "-o", "json")
    assert rotated.status == 0, rotated.err
    keyring_at.cache_clear()  # a new process reads the keyring again

    def under() -> dict[str, int]:
        result = by(cqrs, reader, "keys", "status", "customer", "-o", "json")
        assert result.status == 0, result.err
        return {kek["master"]: kek["keys"] for kek in result.document["masters"]}

    now = rotated.document["master"]
    assert under() == {now: 0, "2026-11": 2}
    with running_owners(people.plan(once=False)):
        eventually(lambda: under() == {now: 2, "2026-11": 0})
    reader.without(lost := RequiredAcl("Read", "topic", people.topics.keys))
    refused = by(cqrs, reader, "keys", "status", "customer")
    assert refused.status == 3 and str(lost) in refused.err, refused.err
