"""The option --personal, which writes personal values to files, where no erasure can reach them."""

from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.options import option
from cqrs_cli.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from cqrs_cli.core.aggregate.aggregate import Aggregate

PersonalValues = Annotated[
    bool,
    option(
        "--personal",
        "Write personal values. A later erasure does not change the files.",
    ),
]


def check_personal(is_requested: bool, aggregate: "Aggregate", keyring: str | None) -> None:
    """Check, before any connection, that the aggregate has personal values, and that a keyring is set.

    Raises `UsageError` for an aggregate without personal fields, `ConfigurationError` without a keyring.
    """
    if not is_requested:
        return
    if not aggregate.has_personal_fields:
        raise UsageError(f"--personal: {aggregate.name} has no personal fields", "leave it out")
    if keyring is None:
        raise ConfigurationError("--personal: no keyring is set", "set keyring")
