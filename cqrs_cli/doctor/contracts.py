"""Compares the committed contracts of a project, `schemas/<aggregate>.json`, with the current code."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.compatibility import (
    Change,
    Contract,
    committed_numbers,
    compare_contracts,
    contract_of,
)
from cqrs_cli.core.aggregate.protobuf import FieldNumbers
from cqrs_cli.errors import ConfigurationError

#: The folder of the committed contracts, in a project's root.
FOLDER = "schemas"

Level = Literal["green", "amber", "red"]


class ContractComparison(NamedTuple):
    """The changes of one aggregate since its contract was committed."""

    aggregate: str
    file: Path
    changes: list[Change]

    @property
    def level(self) -> Level:
        """The gravest level of the changes; green if there is no change."""
        return max(
            (change.level for change in self.changes), key=("green", "amber", "red").index, default="green"
        )


def compare_with_code(
    root: Path, aggregates: Mapping[str, Aggregate], find_removed: bool
) -> list[ContractComparison]:
    """Compare the aggregates with the committed contracts. `find_removed`: also find contracts without an aggregate.

    Raises `ConfigurationError` for a file that is not a contract.
    """
    comparisons = [_compare_aggregate(root, name, aggregate) for name, aggregate in aggregates.items()]
    if find_removed:
        for path in sorted((root / FOLDER).glob("*.json")):
            if path.stem not in aggregates:
                removal = Change(
                    "red",
                    "the aggregate no longer exists",
                    f"existing topics stay; cqrs check --write removes {FOLDER}/{path.name}",
                )
                comparisons.append(ContractComparison(path.stem, path, [removal]))
    return comparisons


def _compare_aggregate(root: Path, name: str, aggregate: Aggregate) -> ContractComparison:
    path = root / FOLDER / f"{name}.json"
    try:
        committed = read_contract(root, name)
        if committed is None:
            return ContractComparison(name, path, [Change("amber", "the contract is not committed yet")])
        return ContractComparison(name, path, compare_contracts(committed, contract_of(aggregate, committed)))
    except (OSError, msgspec.MsgspecError, LookupError, TypeError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{path} cannot be compared: {error}",
            "restore it, or remove it and write it again: cqrs check --write",
        ) from error


def read_contract(root: Path, name: str) -> Contract | None:
    """Return the committed contract of an aggregate; None if there is none.

    Raises `OSError` or msgspec's errors for a file that cannot be read.
    """
    try:
        contract: Contract = msgspec.json.decode(
            (root / FOLDER / f"{name}.json").read_bytes(), type=dict[str, Any]
        )
    except FileNotFoundError:
        return None
    return contract


def protobuf_numbers(root: Path, aggregate: Aggregate, warn: Callable[[str], None]) -> FieldNumbers:
    """Return the committed numbers of the aggregate's Protobuf fields; `warn` if fields have no committed number.

    Raises `ConfigurationError` for a file that is not a contract.
    """
    comparison = _compare_aggregate(root, aggregate.name, aggregate)
    committed = committed_numbers(read_contract(root, aggregate.name) or {})
    if contract_of(aggregate, {"protobuf": committed})["protobuf"] != committed:
        warn(f"numbers of fields are not in {comparison.file} yet and may change: cqrs check --write")
    return committed


def remove_contract(path: Path) -> None:
    """Remove the contract of an aggregate that no longer exists; raises `ConfigurationError` if this fails."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot remove {path}: {error.strerror or error}", "make its folder writable"
        ) from error


def write_contract(root: Path, aggregate: Aggregate) -> None:
    """Write the aggregate's current contract; raises `ConfigurationError` if the file cannot be written."""
    path = root / FOLDER / f"{aggregate.name}.json"
    contract = contract_of(aggregate, read_contract(root, aggregate.name))
    text = msgspec.json.format(msgspec.json.encode(contract, order="sorted"), indent=2)
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text + b"\n")
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {path}: {error.strerror or error}", "make it writable"
        ) from error
