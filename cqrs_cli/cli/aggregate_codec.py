"""Chooses the codec that decodes an aggregate's records for `cqrs tail` and `cqrs trace`."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.context import Cli
from cqrs_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from cqrs_cli.codec.record_codec import RecordCodec


def aggregate_codec(cli: Cli, aggregate: str) -> "RecordCodec":
    """Return the decrypting codec of an aggregate. Without the aggregate's code, events stay encrypted."""
    from cqrs_cli.client.codecs import decrypting_codec

    connection = cli.connection()
    try:
        loaded_aggregate = cli.aggregate(aggregate)
    except ConfigurationError:  # records can be shown without the code
        return connection.payload_codec()
    return decrypting_codec(connection, cli.topics(aggregate), loaded_aggregate)
