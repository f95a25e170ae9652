"""The account of this process: containers may run with a uid that has no account."""

import os
import pwd

from cqrs_cli.errors import ConfigurationError


def require_account() -> None:
    """Raise `ConfigurationError` if the uid has no entry in the passwd database. Hadoop, a part of Spark, needs its
    name.
    """
    uid = os.getuid()
    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise ConfigurationError(
            f"uid {uid} has no entry in /etc/passwd, and Spark needs a user name",
            f"add the line cqrs:x:{uid}:0::/tmp:/sbin/nologin, or run as a user with an entry",
        ) from None
