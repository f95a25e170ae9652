"""Adds the cluster flags of a call, such as `-b kafka:9092`, to the commands in the hints of its errors."""

import re
import shlex
from collections.abc import Mapping

from cqrs_cli.cli.app import PANELS

#: Setting → flag, for the settings that choose the cluster and the topics.
_CLUSTER_FLAGS = {
    "bootstrap_server": "-b",
    "command_config": "--command-config",
    "properties": "-X",
    "topic_prefix": "--topic-prefix",
}

#: The commands to which no flags are added: they use no cluster, or only the embedded broker.
_WITHOUT_CLUSTER = {"new", "add", "demo", "describe", "check", "warm", "kafka"}

#: A command in a hint: `create it: cqrs init`. The flags follow the subcommand: `cqrs deferred list -b kafka:9092`.
_COMMAND_IN_HINT = re.compile(
    rf": cqrs (?:(?:dead-letters|deferred|keys|payloads) \w+|{'|'.join(PANELS.keys() - _WITHOUT_CLUSTER)})\b"
)


def with_flags(hint: str, flags: Mapping[str, object]) -> str:
    """Return the hint. The command after its colon gets the flags that choose the cluster and the topics."""
    text = "".join(f" {shlex.quote(word)}" for word in cluster_flags(flags))
    return _COMMAND_IN_HINT.sub(lambda command: command[0] + text, hint)


def cluster_flags(flags: Mapping[str, object]) -> list[str]:
    """Return the flags of a call that choose the cluster and the topics, such as ["-b", "kafka:9092"]."""
    return [
        word
        for name, flag in _CLUSTER_FLAGS.items()
        for value in _flag_values(flags.get(name))
        for word in (flag, str(value))
    ]


def _flag_values(value: object) -> list[object]:
    """Return a flag's values: an empty list if the flag was not given."""
    if isinstance(value, (list, tuple)):
        return list(value)
    return [] if value is None else [value]
