"""The tokens that a gateway asks for. Needs nothing of the gateway's libraries."""

from pathlib import Path
from typing import NamedTuple

from cqrs_cli.errors import ConfigurationError, UsageError

#: Hosts that only programs of this machine reach.
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class GatewayTokens(NamedTuple):
    """The tokens of a gateway: the one that every request needs, if any, and those with rights besides."""

    every: str | None = None
    erase: str | None = None  # who has it may erase as well
    personal: str | None = None  # who has it sees the values of personal fields as well

    @classmethod
    def read(
        cls, host: str, every: Path | None, erase: Path | None, personal: Path | None
    ) -> "GatewayTokens":
        """The tokens in these files, for a gateway that listens at `host`; raises as the functions below do."""
        token = required_token(every, host)
        return cls(token, other_token(erase, token), other_token(personal, token))


def required_token(path: Path | None, host: str) -> str | None:
    """The token of a gateway that listens at `host`; raises `UsageError` where one is needed and not given."""
    if path is not None:
        return read_token(path)
    if host in LOOPBACK:
        return None
    raise UsageError(
        f"--host {host}: others can reach it, and anybody could send commands",
        "give a token: --token-file FILE, and put something in front that does TLS",
    )


def other_token(path: Path | None, token: str | None) -> str | None:
    """The token in a file, for a right that `token` has not; raises `ConfigurationError` if it is the same."""
    other = None if path is None else read_token(path)
    if other is not None and other == token:
        raise ConfigurationError(f"{path}: every request has this token", "write another one into it")
    return other


def read_token(path: Path) -> str:
    """The token in a file, without white space around it; raises `ConfigurationError` for a weak one."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: {error}", "write the token into it") from None
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(f"{path}: the token is weak", "16 characters or more: openssl rand -hex 32")
    return token
