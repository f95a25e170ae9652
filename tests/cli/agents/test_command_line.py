import anyio
import pytest

from cqrs_cli.cli.agents.command_line import MAX_BYTES, run_process


def run(script: str) -> tuple[int | None, bytes, bytes]:
    async def run_for_limited_time() -> tuple[int | None, bytes, bytes]:
        with anyio.fail_after(20):
            return await run_process(["sh", "-c", script], b"in")

    return anyio.run(run_for_limited_time)


@pytest.mark.program
def test_large_results_end_the_process() -> None:
    """The server keeps no result in memory that it would not return."""
    status, stdout, _ = run("head -c 1000000 /dev/zero; sleep 600")
    assert status != 0 and MAX_BYTES < len(stdout) < 1_000_000


@pytest.mark.program
def test_processes_take_stdin_and_fail() -> None:
    assert run("cat") == (0, b"in", b"")
    assert run("echo no broker >&2; exit 4") == (4, b"", b"no broker\n")
