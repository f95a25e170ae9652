"""The story of `cqrs demo`: its commands in order, with the expected outcomes."""

from dataclasses import dataclass

from cqrs_cli.client.compose import compose
from cqrs_cli.client.envelope import Attributes
from cqrs_cli.client.uuid7 import uuid7
from cqrs_cli.core.aggregate.aggregate import Aggregate


@dataclass(frozen=True, slots=True)
class Step:
    """A record for the commands topic. `ends`: the expected code of the outcome, else its reason, else its status."""

    says: str
    key: str
    value: bytes
    ends: str


def accounts(run: str) -> tuple[str, str]:
    """Return the ids of the two accounts. `run` distinguishes them from accounts of other runs in the same topics."""
    return f"ada-{run}", f"bob-{run}"


def tell(aggregate: Aggregate, run: str) -> list[Step]:
    """Return the story, for the aggregate `bank_account`."""
    ada, bob = accounts(run)
    paid_in = uuid7()

    def step(
        says: str,
        ends: str,
        account: str,
        command: str,
        *fields: str,
        id: str | None = None,
        seen: str | None = None,
    ) -> Step:
        composed = compose(aggregate, account, command, fields, Attributes(id=id, expected=seen))
        return Step(says, account, composed.value, ends)

    return [
        step("Ada opens an account", "accepted", ada, "Open", "owner=Ada"),
        step("Bob opens an account", "accepted", bob, "Open", "owner=Bob"),
        step("Ada pays in 100", "accepted", ada, "Deposit", "amount=100", id=paid_in),
        step("Bob pays in 20", "accepted", bob, "Deposit", "amount=20"),
        step(
            "Ada's phone, having seen version 2, takes out 30",
            "accepted",
            ada,
            "Withdraw",
            "amount=30",
            seen="2",
        ),
        step(
            "her laptop, having seen it too, takes out 40",
            "VERSION_CONFLICT",
            ada,
            "Withdraw",
            "amount=40",
            seen="2",
        ),
        step("Bob takes out 50", "OVERDRAWN", bob, "Withdraw", "amount=50"),
        step("Ada's 100, sent again with the same id", "duplicate", ada, "Deposit", "amount=100", id=paid_in),
        Step("a broken client sends half a command", ada, b'{"specversion":"1.0","id":"', "INVALID_ENVELOPE"),
        step("Ada pays in 5", "accepted", ada, "Deposit", "amount=5"),
    ]
