"""The user's cache folder for files that all projects share. It may be deleted at any time."""

import os
from pathlib import Path


def user_cache() -> Path:
    """Return CQRS_CACHE_DIR if it is set, else `cqrs` in the user's cache folder. The folder need not exist yet."""
    own = os.environ.get("CQRS_CACHE_DIR")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cqrs"
