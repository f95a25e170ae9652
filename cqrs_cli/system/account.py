"""The account and the loopback name of this machine: a container may lack both."""

import os
import pwd
import socket

from cqrs_cli.errors import ConfigurationError


def require_host(name: str) -> None:
    """Raise `ConfigurationError` if this machine cannot resolve the host `name`. Spark listens on `localhost`."""
    try:
        socket.getaddrinfo(name, None)
    except OSError as error:
        raise ConfigurationError(
            f"this machine does not know the host {name}, on which Spark listens ({error.strerror})",
            f"add the line 127.0.0.1 {name} to /etc/hosts",
        ) from error


def require_account() -> None:
    """Raise `ConfigurationError` if the uid has no entry in the passwd database. Hadoop, a part of Spark, needs the
    user's name.
    """
    uid = os.getuid()
    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise ConfigurationError(
            f"uid {uid} has no entry in /etc/passwd, and Spark needs a user name",
            f"add the line cqrs:x:{uid}:0::/tmp:/sbin/nologin, or run as a user with an entry",
        ) from None
