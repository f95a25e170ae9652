"""The bank account with personal fields in each deposit, its event and its state: the payers' names."""

import json
import secrets
from base64 import b64encode
from pathlib import Path

from cqrs_cli.keys.keyring import SIZES

NAME = "personal_account"


def add_personal_account(root: Path, fields: int) -> None:
    """Add the aggregate, with this number of personal fields, and a keyring to the project in `root`."""
    names = [f"by{number}" for number in range(fields)]
    listed = ", ".join(names)
    keyword_arguments = ", ".join(f"{name}={name}" for name in names)
    marks = "".join(f'    {name}: cqrs.Personal[str] = ""\n' for name in names)
    code = (root / "aggregates" / "bank_account.py").read_text()
    for old, instead in (
        (
            "class Deposit(cqrs.Command):\n    amount: int\n",
            f"class Deposit(cqrs.Command):\n    amount: int\n{marks}",
        ),
        (
            "class Deposited(cqrs.Event):\n    amount: int\n",
            f"class Deposited(cqrs.Event):\n    amount: int\n{marks}",
        ),
        ("    closed: bool = False\n", f"    closed: bool = False\n{marks}"),
        (
            "case Deposit(amount):\n            yield Deposited(amount)",
            f"case Deposit(amount, {listed}):\n            yield Deposited(amount, {listed})",
        ),
        ("case Deposited(amount):", f"case Deposited(amount, {listed}):"),
        ("balance=account.balance + amount)", f"balance=account.balance + amount, {keyword_arguments})"),
    ):
        assert code.count(old) == 1, old
        code = code.replace(old, instead)
    (root / "aggregates" / f"{NAME}.py").write_text(code)
    keyring = {"benchmark": b64encode(secrets.token_bytes(SIZES[-1])).decode()}
    (root / "keys.json").write_text(json.dumps(keyring))
    (root / "cqrs.toml").write_text('keyring = "file:keys.json"\n')


def deposit_data(fields: int) -> str:
    """Return the data of a deposit."""
    return json.dumps({"amount": 5, **{f"by{number}": "Ann Smith" for number in range(fields)}})
