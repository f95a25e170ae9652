"""A process raises its soft limits as far as its hard limits allow. If that is not sufficient, it reports an error."""

import resource
import subprocess
import sys

import pytest

from cqrs_cli.system.limits import Allowance, Needs, hard_limits, owner_needs

#: Prints the soft limits after raising them, or the error.
RAISE_LIMITS = """\
import resource, sys
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.system.limits import Needs, raise_soft_limits
try:
    raise_soft_limits(Needs(300, 8 << 30), "a test")
except ConfigurationError as error:
    print(f"{error.message}; {error.hint}")
else:
    print([resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS)])
"""


def output_with_limits(kind: int, soft: int, hard: int) -> str:
    """Return the output of a process with these limits."""
    process = subprocess.run(
        [sys.executable, "-c", RAISE_LIMITS],
        preexec_fn=lambda: resource.setrlimit(kind, (soft, hard)),
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stdout


@pytest.mark.program
def test_soft_limits_are_raised() -> None:
    assert output_with_limits(resource.RLIMIT_NOFILE, 64, 1000).startswith("[300, ")
    assert output_with_limits(resource.RLIMIT_AS, 2 << 30, 9 << 30).rstrip().endswith(f"{8 << 30}]")


@pytest.mark.program
def test_sufficient_limits_are_kept() -> None:
    assert output_with_limits(resource.RLIMIT_NOFILE, 400, 1000).startswith("[400, ")


@pytest.mark.program
def test_low_limit_of_files() -> None:
    output = output_with_limits(resource.RLIMIT_NOFILE, 64, 299)
    assert output.startswith("a test needs 300 open files, and a process may have 299; ")
    assert "ulimit -n 300" in output and "LimitNOFILE=300" in output


@pytest.mark.program
@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not limit it")
def test_low_limit_of_address_space() -> None:
    output = output_with_limits(resource.RLIMIT_AS, 2 << 30, 4 << 30)
    assert "needs 8 GiB of address space" in output and "a process may have 4; " in output
    assert "ulimit -v unlimited" in output and "LimitAS=infinity" in output


def test_unlimited_is_never_short() -> None:
    assert Allowance(None, None).shortage(Needs(10**9, 1 << 60), "a test") is None
    assert hard_limits().shortage(Needs(1, 1), "a test") is None


def test_brokers_and_partitions_add_needs() -> None:
    assert owner_needs(80).descriptors > 80 * 28
    assert owner_needs(80, brokers=3).descriptors >= owner_needs(80).descriptors + 80 * 2 * 9
    assert owner_needs(2).bytes - owner_needs(1).bytes > 16 << 30
