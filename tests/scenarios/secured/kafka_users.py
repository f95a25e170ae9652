"""Kafka users for the customer topics on the secured broker."""

from dataclasses import replace

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.acls import Role
from tests.scenarios.secured.acls import User
from tests.scenarios.secured.broker import SecuredBroker
from tests.support.harness import TopicHarness


def connection_with_keyring(shop: TopicHarness, user: User) -> Connection:
    return replace(user.connection, keys=shop.connection.keys)


def create_user(users: list[User], secured: SecuredBroker, shop: TopicHarness, role: Role) -> User:
    users.append(User(secured, f"{shop.topics.prefix}{role}", shop.topics, role, personal=True))
    return users[-1]
