"""The attribution of an operator's actions on the command line."""

import getpass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cqrs_cli.client.envelope import Attribution


def attribution_of(action: str) -> "Attribution":
    """Return the action, and the user's name in the operating system; empty for a user id without a name.

    Bytes of the name that are not UTF-8 are replaced by `?`.
    """
    from cqrs_cli.client.envelope import Attribution

    try:
        return Attribution(getpass.getuser().encode(errors="replace").decode(), action)
    except (OSError, KeyError, ImportError):
        return Attribution("", action)
