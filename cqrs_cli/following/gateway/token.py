"""The access tokens of a gateway, and their rights. This module imports none of the gateway's libraries."""

import hmac
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from cqrs_cli.errors import ConfigurationError, UsageError

#: Hosts that only programs on this machine can reach.
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

#: The rights of a token. `operate`: retry and drop dead letters, release and cancel deferred commands. `personal`: see
#: the values of personal fields. `erase`: erase them.
RIGHTS = ("read", "send", "operate", "personal", "erase")

_NAME = "name="


class Access(NamedTuple):
    """The rights of a request, and the name of its token, which is recorded with the commands that it sends."""

    rights: frozenset[str] = frozenset({"read", "send"})
    name: str = ""


#: Token → access. An empty mapping means that no request needs a token.
Tokens = Mapping[str, Access]
NO_TOKENS: Tokens = MappingProxyType({})

#: The access of every request to a gateway without tokens.
LOCAL_ACCESS = Access(frozenset({"read", "send", "operate"}))


def find_access(tokens: Tokens, sent_token: str) -> Access | None:
    """Return the access of a request with this token; None for an unknown token.

    The duration does not depend on the token's characters, so attackers cannot guess a token step by step.
    """
    found: Access | None = None
    for token, access in tokens.items():
        if hmac.compare_digest(sent_token.encode(), token.encode()):
            found = access
    return found


def read_required_tokens(path: Path | None, host: str) -> Tokens:
    """Return the tokens of a gateway that listens at `host`; raises `UsageError` if required tokens are missing."""
    if path is not None:
        return read_tokens(path)
    if host in LOOPBACK:
        return {}
    raise UsageError(
        f"--host {host}: other machines can reach the gateway, and could send commands without a token",
        "require a token: --token-file FILE, and put a proxy with TLS in front of the gateway",
    )


def read_tokens(path: Path) -> Tokens:
    """Read the lines `TOKEN [name=NAME] [RIGHT …]` of a file; without rights, a token has `read` and `send`.

    Empty lines, and lines that begin with `#`, are skipped. Raises `ConfigurationError` for an unreadable file, a weak
    token, a repeated token, and an unknown right.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: {error}", "write the token into the file") from None
    tokens: dict[str, Access] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        token, *words = line.split()
        place = f"{path} line {number}"
        if len(token) < 16 or not token.isascii() or not token.isprintable():
            raise ConfigurationError(
                f"{place}: the token is too weak", "use at least 16 characters: openssl rand -hex 32"
            )
        if token in tokens:
            raise ConfigurationError(f"{place}: the token occurs twice", "write another token")
        tokens[token] = _read_access(place, words)
    if not tokens:
        raise ConfigurationError(f"{path}: it has no token", "write the token into the file")
    return tokens


def _read_access(place: str, words: list[str]) -> Access:
    names = [word.removeprefix(_NAME) for word in words if word.startswith(_NAME)]
    rights = frozenset(word for word in words if not word.startswith(_NAME))
    if unknown := sorted(rights - set(RIGHTS)):
        raise ConfigurationError(
            f"{place}: there is no right {unknown[0][:40]!r}", f"rights are: {', '.join(RIGHTS)}"
        )
    if len(names) > 1 or not all(name and name.isprintable() for name in names):
        raise ConfigurationError(f"{place}: not one name", "write one word: name=ann")
    name = names[0] if names else ""
    if "operate" in rights and not name:
        raise ConfigurationError(
            f"{place}: the right operate needs a name, which is recorded with each action",
            "write name=NAME after the token",
        )
    return Access(rights | {"read"}, name) if rights else Access(name=name)
