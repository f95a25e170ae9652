"""Commands for tests, as serialized records."""

import json
import random
from collections.abc import Iterable, Iterator
from itertools import count as counting
from typing import Any, NamedTuple

from cqrs_cli.client.compose import complete_line
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Headers
from cqrs_cli.kafka.connection.connection import Connection

STRUCTURED_HEADERS: Headers = [*HEADERS]

#: A time in the far future.
FAR_FUTURE = "2999-01-01T00:00:00Z"


class CommandRecord(NamedTuple):
    """A record to send.

    With `partition=None` the key's hash selects the partition, and a record without key goes to 0.
    """

    value: bytes | None
    key: bytes | None
    headers: Headers | None = STRUCTURED_HEADERS
    partition: int | None = None


def document(type: str, subject: str, id: str, data: Any = None, **attributes: Any) -> dict[str, Any]:
    """Return a command as a CloudEvent."""
    return {
        "specversion": "1.0",
        "id": id,
        "source": "/test",
        "type": type,
        "subject": subject,
        "data": {} if data is None else data,
        **attributes,
    }


def command(type: str, subject: str, id: str, data: Any = None, **attributes: Any) -> CommandRecord:
    """Return a command in structured mode."""
    return CommandRecord(
        json.dumps(document(type, subject, id, data, **attributes)).encode(), subject.encode()
    )


def send_unchecked(connection: Connection, prefix: str, lines: Iterable[dict[str, Any]]) -> None:
    """Send lines as `cqrs send --file` does, also commands that it would reject."""
    with CommandProducer(connection, "murmur2") as producer:
        for line in lines:
            ready = complete_line(json.dumps(line).encode())
            producer.send(f"{prefix}{ready.aggregate}.commands", ready.subject.encode(), ready.value)
        producer.flush()


def increment_commands(count: int, subject: str = "a", first: int = 0) -> list[CommandRecord]:
    """Return commands to a counter, all of which are accepted."""
    return [command("counter.Increment", subject, f"i{n}") for n in range(first, first + count)]


def mixed_commands(count: int, accounts: int = 20, seed: int = 1) -> Iterator[CommandRecord]:
    """Yield commands to bank accounts whose outcomes have all statuses. Equal arguments yield equal commands."""
    rng = random.Random(seed)
    sent = [command("bank_account.Open", f"acc-{n}", f"open-{n}", {"owner": "ann"}) for n in range(accounts)]
    yield from sent[:count]
    for number in range(len(sent), count):
        sent.append(_random_command(rng, f"acc-{rng.randrange(accounts)}", f"c-{number}", sent))
        yield sent[-1]


def endless_commands(seed: str, accounts: int = 100) -> Iterator[CommandRecord]:
    """Yield commands of all kinds without end, including commands that our client would never send."""
    rng = random.Random(seed)
    sent: list[CommandRecord] = []
    for number in counting():
        subject, id = f"acc-{rng.randrange(accounts)}", f"{seed}-{number}"
        amount = {"amount": rng.randrange(1, 100)}
        match rng.randrange(60) if number > accounts else 0:
            case 0:
                sent.append(command("bank_account.Open", subject, id, {"owner": "ann"}))
            case 1:
                sent.append(CommandRecord(b"{}", None))
            case 2:
                past = "2000-01-01T00:00:00Z"
                sent.append(command("bank_account.Deposit", subject, id, amount, expirytime=past))
            case 3:
                sent.append(command("bank_account.Deposit", subject, id, amount)._replace(partition=0))
            case _:
                sent.append(_random_command(rng, subject, id, sent))
        yield sent[-1]
        del sent[:-1000]


def _random_command(rng: random.Random, subject: str, id: str, sent: list[CommandRecord]) -> CommandRecord:
    amount = {"amount": rng.randrange(1, 100)}
    match rng.randrange(20):
        case 0:
            expected = rng.choice(["none", "exists", "3", ">=9", "07"])
            return command("bank_account.Deposit", subject, id, amount, expectedversion=expected)
        case 1:
            return command("bank_account.Close", "acc-0", id)
        case 2:
            return command("bank_account.Deposit", subject, f"open-{subject[4:]}", amount)
        case 3:
            return command("bank_account.Deposit", subject, id, {"amount": "1"})
        case 4:
            return command("bank_account.Burn", subject, id)
        case 5:
            return CommandRecord(b"\xff not JSON", subject.encode())
        case 6 | 7:
            return rng.choice(sent)
        case _:
            kind = rng.choice(["Deposit", "Deposit", "Withdraw"])
            return command(f"bank_account.{kind}", subject, id, amount)
