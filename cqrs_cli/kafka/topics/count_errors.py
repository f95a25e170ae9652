"""The errors for partition counts that differ from a claim or from the partition history."""

from cqrs_cli.errors import ConfigurationError


def count_covering(before: int, topic_partitions: int) -> int:
    """Return the lowest multiple of `before` that is not below `topic_partitions`: the next count if topics were
    extended by hand to `topic_partitions` partitions.
    """
    return before * -(-topic_partitions // before)  # rounded up


def partition_count_error(aggregate: str, topic: str, before: int, after: int) -> ConfigurationError:
    """Return the error for a topic whose partition count changed without a repartitioning."""
    hint = (
        "fewer partitions would spread the events of a key: recreate the topic with the old count, or migrate to "
        "new topics"
    )
    if after > before:
        hint = f"record the new count in the partition history: {_command(aggregate, before, after)}"
    return ConfigurationError(f"{topic} had {before} partitions and now has {after}", hint)


def unknown_count_error(aggregate: str, count: int, last_count: int) -> ConfigurationError:
    """Return the error for topics with `count` partitions if the partition history ends with `last_count`."""
    return ConfigurationError(
        f"the topics of {aggregate} have {count} partitions, but its partition history ends with {last_count}",
        f"raise the count: {_command(aggregate, last_count, count)}",
    )


def _command(aggregate: str, before: int, after: int) -> str:
    return f"cqrs repartition {aggregate} --partitions {count_covering(before, after)}"
