"""The user's cache folder for files that all projects share. It may be deleted at any time."""

import os
from pathlib import Path

from cqrs_cli.errors import ConfigurationError


def user_cache() -> Path:
    """Return CQRS_CACHE_DIR if it is set, else `cqrs` in the user's cache folder. The folder need not exist yet.

    Raises `ConfigurationError` for a user without a home folder.
    """
    folder = os.environ.get("CQRS_CACHE_DIR")
    if folder:
        return Path(folder).expanduser()
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cqrs"
    except RuntimeError:  # neither HOME nor an account
        raise ConfigurationError(
            f"uid {os.getuid()} has no home folder for the cache", "set HOME or CQRS_CACHE_DIR"
        ) from None
