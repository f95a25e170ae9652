"""Limits on sizes: code above a limit causes a warning, unless a reason is listed for it."""

import warnings
from collections.abc import Iterable, Mapping

#: The beginning of each warning, for `filterwarnings` of pyproject.toml.
OVER_LIMIT = "over the limit"


def warn(limit: str, messages: Iterable[str], reasons: Mapping[str, str] | None = None) -> None:
    """Warn of names above a limit without a listed reason. Fails for a reason that is not needed any more."""
    names = set(messages)
    if unexplained := sorted(names - set(reasons or ())):
        warnings.warn(f"{OVER_LIMIT} ({limit}): {', '.join(unexplained)}", stacklevel=2)
    assert set(reasons or ()) - names == set(), "these reasons are not needed any more"
