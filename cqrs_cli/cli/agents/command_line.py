"""Runs command lines of `cqrs` for agents, each in a process of its own.

Such a process loads the code that is on the disk now. Neither its output nor Spark's output can mix with the
protocol on the server's stdout.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cqrs_cli.errors import CqrsError

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream, ByteSendStream

#: The largest output of a command in bytes. A larger output would fill an agent's context.
MAX_BYTES = 200_000


async def run_command(arguments: Sequence[str], flags: Sequence[str], stdin: str = "") -> list[Any]:
    """Run a command with `-o json`, and return the JSON documents that it prints, one per line.

    `flags`: the cluster flags of `cqrs mcp`. Raises `CqrsError` for an output of more than `MAX_BYTES`, and with the
    command's own message if the command fails without output; the output of a failed command is returned. If the
    caller is cancelled, the process is killed.
    """
    name, *others = arguments
    command_line = [sys.executable, "-m", "cqrs_cli", name, *flags, "-q", "-o", "json", *others]
    status, stdout, stderr = await run_process(command_line, stdin.encode())
    if len(stdout) > MAX_BYTES:
        raise CqrsError(
            f"the result of cqrs {name} has more than {MAX_BYTES:,} bytes",
            "ask for less: one message, a later time, fewer columns",
        )
    if status != 0 and not stdout:
        raise _error_of(stderr)
    return [json.loads(line) for line in stdout.splitlines()]


async def run_process(command_line: Sequence[str], stdin: bytes) -> tuple[int | None, bytes, bytes]:
    """Run a process, and return its status, stdout and stderr, of which only the last `MAX_BYTES` are kept.

    If stdout has more than `MAX_BYTES`, kill the process, and return the bytes so far.
    """
    import anyio

    stdout, stderr = b"", b""
    async with await anyio.open_process(command_line) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None

        async def write_stdin(stream: "ByteSendStream") -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the process has ended
                await stream.send(stdin)
            await stream.aclose()

        async def read_stderr(stream: "ByteReceiveStream") -> None:
            nonlocal stderr
            async for chunk in stream:
                stderr = (stderr + chunk)[-MAX_BYTES:]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write_stdin, process.stdin)
            tasks.start_soon(read_stderr, process.stderr)
            async for chunk in process.stdout:
                stdout += chunk
                if len(stdout) > MAX_BYTES:
                    process.kill()
                    tasks.cancel_scope.cancel()  # children of the process may keep stderr open
                    break
    return process.returncode, stdout, stderr


def _error_of(stderr: bytes) -> CqrsError:
    """Return the error in the last line of a command's stderr."""
    line = (stderr.splitlines() or [b""])[-1]
    try:
        error = json.loads(line)["error"]
        return CqrsError(error["message"], error["hint"])
    except (ValueError, TypeError, LookupError):
        return CqrsError(line.decode(errors="replace") or "the command ended without a message")
