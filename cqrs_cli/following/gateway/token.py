"""The access tokens of a gateway. This module imports none of the gateway's libraries."""

from pathlib import Path
from typing import NamedTuple

from cqrs_cli.errors import ConfigurationError, UsageError

#: Hosts that only programs on this machine can reach.
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class GatewayTokens(NamedTuple):
    """The tokens of a gateway: a token for every request, if required, and tokens with additional rights."""

    every: str | None = None
    erase: str | None = None  # also grants erasing
    personal: str | None = None  # also shows the values of personal fields

    @classmethod
    def read(
        cls, host: str, every: Path | None, erase: Path | None, personal: Path | None
    ) -> "GatewayTokens":
        """Read the tokens of a gateway at `host` from files.

        Raises the errors of `read_required_token` and `read_extra_token`.
        """
        token = read_required_token(every, host)
        return cls(token, read_extra_token(erase, token), read_extra_token(personal, token))


def read_required_token(path: Path | None, host: str) -> str | None:
    """Return the token of a gateway that listens at `host`; raises `UsageError` if a required token is missing."""
    if path is not None:
        return read_token(path)
    if host in LOOPBACK:
        return None
    raise UsageError(
        f"--host {host}: other machines can reach the gateway, and could send commands without a token",
        "require a token: --token-file FILE, and put a proxy with TLS in front of the gateway",
    )


def read_extra_token(path: Path | None, token: str | None) -> str | None:
    """Return the token for an additional right; raises `ConfigurationError` if it equals the general `token`."""
    extra_token = None if path is None else read_token(path)
    if extra_token is not None and extra_token == token:
        raise ConfigurationError(
            f"{path}: it contains the general token, which every request has",
            "write another token into the file",
        )
    return extra_token


def read_token(path: Path) -> str:
    """Read a token from a file, without surrounding white space; raises `ConfigurationError` for a weak token."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: {error}", "write the token into the file") from None
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(
            f"{path}: the token is too weak", "use at least 16 characters: openssl rand -hex 32"
        )
    return token
