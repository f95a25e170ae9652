"""The doctor's checks of a running gateway."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.context import Cli

if TYPE_CHECKING:
    from cqrs_cli.doctor.check import Check
    from cqrs_cli.doctor.gateway import GatewayAddress


def check_serving(cli: Cli, address: "GatewayAddress", token_file: Path | None) -> "Iterator[Check]":
    """Check the gateway at this address."""
    from cqrs_cli.doctor.check import run_check
    from cqrs_cli.doctor.gateway import check_gateway
    from cqrs_cli.following.gateway.token import read_tokens

    def describe_aggregates(names: Collection[str], read_only: bool) -> Any:
        import msgspec

        from cqrs_cli.following.gateway.openapi import describe_api

        api = describe_api([cli.aggregate(name) for name in names], read_only, with_token=False)
        return msgspec.json.decode(msgspec.json.encode(api))

    def run_checks() -> "Iterator[Check]":
        token = None if token_file is None else next(iter(read_tokens(token_file)))
        return check_gateway(address, token, cli.aggregate_names(), describe_aggregates)

    yield from run_check("gateway", run_checks)
