"""The story of `cqrs demo`: its commands in order, with the expected outcomes."""

from dataclasses import dataclass

from cqrs_cli.client.compose import compose
from cqrs_cli.client.envelope import Attributes
from cqrs_cli.client.uuid7 import uuid7
from cqrs_cli.core.aggregate.aggregate import Aggregate


@dataclass(frozen=True, slots=True)
class Step:
    """A record for the commands topic.

    `expected_result`: the code of the expected outcome; if it has no code, its reason; if it has no reason, its status.
    """

    description: str
    key: str
    value: bytes
    expected_result: str


def account_ids(demo_name: str) -> tuple[str, str]:
    """Return the ids of the two accounts. `demo_name` distinguishes them from accounts of earlier demos."""
    return f"ada-{demo_name}", f"bob-{demo_name}"


def story_steps(aggregate: Aggregate, demo_name: str) -> list[Step]:
    """Return the steps of the story in order. `aggregate`: the aggregate `bank_account`."""
    ada, bob = account_ids(demo_name)
    deposit_id = uuid7()

    def step(
        description: str,
        expected_result: str,
        account: str,
        command: str,
        *fields: str,
        id: str | None = None,
        expected_version: str | None = None,
    ) -> Step:
        composed = compose(aggregate, account, command, fields, Attributes(id=id, expected=expected_version))
        return Step(description, account, composed.value, expected_result)

    return [
        step("Ada opens an account", "accepted", ada, "Open", "owner=Ada"),
        step("Bob opens an account", "accepted", bob, "Open", "owner=Bob"),
        step("Ada pays in 100", "accepted", ada, "Deposit", "amount=100", id=deposit_id),
        step("Bob pays in 20", "accepted", bob, "Deposit", "amount=20"),
        step(
            "Ada's phone, having seen version 2, takes out 30",
            "accepted",
            ada,
            "Withdraw",
            "amount=30",
            expected_version="2",
        ),
        step(
            "her laptop, having seen it too, takes out 40",
            "VERSION_CONFLICT",
            ada,
            "Withdraw",
            "amount=40",
            expected_version="2",
        ),
        step("Bob takes out 50", "OVERDRAWN", bob, "Withdraw", "amount=50"),
        step(
            "Ada's 100, sent again with the same id", "duplicate", ada, "Deposit", "amount=100", id=deposit_id
        ),
        Step("a broken client sends half a command", ada, b'{"specversion":"1.0","id":"', "INVALID_ENVELOPE"),
        step("Ada pays in 5", "accepted", ada, "Deposit", "amount=5"),
    ]
