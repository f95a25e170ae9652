"""Commands in hints, made ones of the call that they are given after."""

import re
import shlex
from collections.abc import Mapping

#: The flags that say which cluster and topics a call is about, by setting.
_PLACE = {
    "bootstrap_server": "-b",
    "command_config": "--command-config",
    "properties": "-X",
    "topic_prefix": "--topic-prefix",
}

#: A command in a hint: `create it: cqrs init`. The embedded broker's take no flags.
_NAMED = re.compile(r": cqrs (?:init|run|tail|show|replay|verify|status|doctor)\b")


def with_flags(hint: str, flags: Mapping[str, object]) -> str:
    """A hint whose command, behind a colon, has those of the flags that say which cluster and topics it is about."""
    given = "".join(
        f" {flag} {shlex.quote(str(value))}"
        for name, flag in _PLACE.items()
        for value in _several(flags.get(name))
    )
    return _NAMED.sub(lambda named: named[0] + given, hint)


def _several(value: object) -> list[object]:
    """A flag's values: none if it was not given."""
    if isinstance(value, (list, tuple)):
        return list(value)
    return [] if value is None else [value]
