"""`cqrs keys`: the keyring of key-encryption keys (KEKs), which encrypt the data keys of personal fields."""

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

keys = subgroup("keys", "The keyring, which decrypts personal fields.")


@command(keys, "init", examples=["cqrs keys init"])
def init_keyring(cli: Cli) -> None:
    """Create the keyring at the address in the setting keyring.

    For file:PATH it writes a new file, readable only by its owner, with one key-encryption key of 64 random bytes. It
    never replaces a file. For env:NAME and exec:COMMAND it prints the content that you must store.
    """
    from cqrs_cli.keys.keyring_file import create_keyring_file

    _change_keyring(cli, "made", create_keyring_file)


@command(keys, "rotate", examples=["cqrs keys rotate"])
def rotate_keyring(cli: Cli) -> None:
    """Add a new key-encryption key (KEK) to the keyring, for all new data keys.

    For file:PATH it replaces the file. For env:NAME and exec:COMMAND it prints the change that you must make. The old
    KEKs stay in the keyring.

    Restart the runs afterwards: they read the keyring at their start. Owners re-encrypt all data keys when they are
    idle. cqrs keys status reports when an old KEK can be destroyed.
    """
    from cqrs_cli.keys.keyring_file import rotate_keyring_file

    _change_keyring(cli, "rotated", rotate_keyring_file)


@command(keys, "status", examples=["cqrs keys status", "cqrs keys status customer -o json"])
def keys_status(cli: Cli, aggregates: AggregateNames = None) -> None:
    """Count the data keys under each key-encryption key (KEK), and name the KEKs that can be destroyed.

    It reads the keys topics; by default of all aggregates with personal fields. A KEK is needed until compaction has
    removed the last data key that is encrypted with it, which takes hours after a rotation.

    The command exits with 5 if the keyring lacks a KEK that is in use.
    """
    from cqrs_cli.cli.render.keys import key_usage_result, unused_kek_note
    from cqrs_cli.doctor.keys import count_kek_usage

    address = cli.settings.keys()
    keyring = None if address is None else address.load()
    names = aggregates or [
        name for name, aggregate in cli.usable_aggregates(None).items() if aggregate.has_personal_fields
    ]
    cli.check_aggregates(*names)
    connection = cli.connection()
    usage = {}
    for name in dict.fromkeys(names):
        with cli.show_spinner(f"reading the keys of {name}"):
            usage[name] = count_kek_usage(connection, cli.topics(name))
    result = key_usage_result(keyring.names if keyring else (), usage)
    cli.print_result(*result)
    cli.flush()
    for kek_id in result.document["not_needed"]:
        cli.print_note(unused_kek_note(kek_id))
    if not usage:
        cli.print_note("no aggregate has personal fields")
    if keyring is not None:
        for name, keks in usage.items():
            keyring.check_keks(cli.topics(name).keys, (kek_id for kek_id, use in keks.items() if use.current))


def _change_keyring(cli: Cli, action: str, change: "Callable[[Path, str, bytes], str]") -> None:
    """Change the keyring if it is a file; else print the change that the user must make."""
    from cqrs_cli.cli.render.keys import keyring_file_result, keyring_instructions
    from cqrs_cli.keys.keyring_file import KEK_BYTES

    address, month = _keyring_address(cli), time.strftime("%Y-%m")
    file = address.file
    if file is None:
        cli.print_result(*keyring_instructions(address, action, month))
    else:
        cli.print_result(*keyring_file_result(file, action, change(file, month, os.urandom(KEK_BYTES))))


def _keyring_address(cli: Cli) -> "KeyRingAddress":
    address = cli.settings.keys()
    if address is None:
        raise ConfigurationError(
            "no keyring is set",
            'set it in cqrs.toml: keyring = "file:keys.json", and exclude the file from git',
        )
    return address
