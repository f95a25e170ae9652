"""Limits on sizes: code above a limit causes a warning, unless a reason is listed for it."""

import warnings
from collections.abc import Iterable, Mapping

#: The beginning of each warning, for `filterwarnings` of pyproject.toml.
OVER = "over the limit"


def warn(limit: str, messages: Iterable[str], reasons: Mapping[str, str] | None = None) -> None:
    """Warn of names above a limit without a listed reason. Fails for a reason that is not needed any more."""
    over = set(messages)
    if unexplained := sorted(over - set(reasons or ())):
        warnings.warn(f"{OVER} ({limit}): {', '.join(unexplained)}", stacklevel=2)
    assert set(reasons or ()) - over == set(), "these reasons are not needed any more"
