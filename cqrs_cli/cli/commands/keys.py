"""`cqrs keys`: the ring of master keys, under which the keys of personal fields are."""

import os
import time
from typing import TYPE_CHECKING

from cqrs_cli.cli.app import subgroup
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames
from cqrs_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cqrs_cli.keys.address import KeyRingAddress

keys = subgroup("keys", "The ring of master keys: whoever has it may read personal fields.")


@command(keys, "init", examples=["cqrs keys init"])
def init_ring(cli: Cli) -> None:
    """Make the ring of master keys that the setting personal_keys names.

    At file:PATH it writes a new file that only its owner may read, with one key of 64 random bytes, named by its month.
    A file that is there stays as it is. Of env:NAME and exec:COMMAND it says what is to be put there.
    """
    from cqrs_cli.keys.ring_file import make_ring_file

    _change(cli, "made", make_ring_file)


@command(keys, "rotate", examples=["cqrs keys rotate"])
def rotate_ring(cli: Cli) -> None:
    """Put a new master key first in the ring: keys are put under it from then on.

    At file:PATH the file is replaced. Of env:NAME and exec:COMMAND it says what is to be done. The old master keys
    stay behind the new one. Runs read the ring when they start: start them again. While idle, owners put all keys under
    the new master key; cqrs keys status says when nothing is under an old one any more, and it can be destroyed.
    """
    from cqrs_cli.keys.ring_file import rotate_ring_file

    _change(cli, "rotated", rotate_ring_file)


@command(keys, "status", examples=["cqrs keys status", "cqrs keys status customer -o json"])
def keys_status(cli: Cli, aggregates: AggregateNames = None) -> None:
    """Count the keys under each master key, and say which master keys can be destroyed.

    It reads the keys topics of these aggregates, by default of all that have personal fields. A master key is needed as
    long as a key is under it, or a record that another one has replaced: compaction removes that within hours.

    Ends with 5 when the ring lacks a master key under which a key is. Without a ring it only counts.
    """
    from cqrs_cli.cli.render.keys import free_master, keys_in_use
    from cqrs_cli.kafka.masters_in_use import masters_in_use
    from cqrs_cli.keys.address import ring_at

    place = cli.settings.keys()
    ring = None if place is None else ring_at(place)
    chosen = aggregates or [name for name, one in cli.usable(None).items() if one.has_personal_fields]
    cli.check_aggregates(*chosen)
    connection = cli.connection()
    found = {}
    for name in dict.fromkeys(chosen):
        with cli.working(f"reading the keys of {name}"):
            found[name] = masters_in_use(connection, cli.topics(name))
    result = keys_in_use(ring.names if ring else (), found)
    cli.result(*result)
    cli.flush()
    for name in result.document["not_needed"]:
        cli.note(free_master(name))
    if not found:
        cli.note("no aggregate has personal fields")
    if ring is not None:
        for name, masters in found.items():
            ring.check_masters(cli.topics(name).keys, (one for one, use in masters.items() if use.keys))


def _change(cli: Cli, how: str, change: "Callable[[Path, str, bytes], str]") -> None:
    """Change the file of the ring, or say what is to be done with another one."""
    from cqrs_cli.cli.render.keys import changed_ring, ring_by_hand
    from cqrs_cli.keys.ring_file import MASTER_BYTES

    address, month = _address(cli), time.strftime("%Y-%m")
    file = address.file
    if file is None:
        cli.result(*ring_by_hand(address, how, month))
    else:
        cli.result(*changed_ring(file, how, change(file, month, os.urandom(MASTER_BYTES))))


def _address(cli: Cli) -> "KeyRingAddress":
    address = cli.settings.keys()
    if address is None:
        raise ConfigurationError(
            "no personal_keys is set: there is no ring of master keys",
            'set it in cqrs.toml: personal_keys = "file:keys.json", outside of what git keeps',
        )
    return address
