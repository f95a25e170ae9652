"""The user's cache: what is fetched or made once for all projects, and may be removed at any time."""

import os
from pathlib import Path


def user_cache() -> Path:
    """CQRS_CACHE_DIR, else `cqrs` in the user's cache. It need not exist yet."""
    own = os.environ.get("CQRS_CACHE_DIR")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cqrs"
