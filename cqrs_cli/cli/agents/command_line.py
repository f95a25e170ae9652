"""Runs command lines of `cqrs` for agents, each in a process of its own.

Such a process loads the code that is on the disk now. Neither its output nor Spark's output can mix with the
protocol on the server's stdout.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

from cqrs_cli.errors import CqrsError

#: The largest output of a command in bytes. A larger output would fill an agent's context.
MAX_BYTES = 200_000


async def run_command(arguments: Sequence[str], flags: Sequence[str], stdin: str = "") -> list[Any]:
    """Run a command with `-o json`, and return the JSON documents that it prints, one per line.

    `flags`: the cluster flags of `cqrs mcp`. Raises `CqrsError` for an output of more than `MAX_BYTES`, and with the
    command's own message if the command fails without output; the output of a failed command is returned. If the
    caller is cancelled, the process is killed.
    """
    import anyio

    name, *others = arguments
    command_line = [sys.executable, "-m", "cqrs_cli", name, *flags, "-q", "-o", "json", *others]
    process = await anyio.run_process(command_line, input=stdin.encode(), check=False)
    if len(process.stdout) > MAX_BYTES:
        raise CqrsError(
            f"the result of cqrs {name} has {len(process.stdout):,} bytes, which is more than {MAX_BYTES:,}",
            "ask for less: one message, a later time, fewer columns",
        )
    if process.returncode != 0 and not process.stdout:
        raise _error_of(process.stderr)
    return [json.loads(line) for line in process.stdout.splitlines()]


def _error_of(stderr: bytes) -> CqrsError:
    """Return the error in the last line of a command's stderr."""
    line = (stderr.splitlines() or [b""])[-1]
    try:
        error = json.loads(line)["error"]
        return CqrsError(error["message"], error["hint"])
    except (ValueError, TypeError, LookupError):
        return CqrsError(line.decode(errors="replace") or "the command ended without a message")
