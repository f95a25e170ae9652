"""docs/personal.md is correct: its code runs, its commands are valid, and its keyrings can be read."""

import re
import shlex
import tomllib
from typing import Any

import msgspec
import pytest

from cqrs_cli.cli import main
from cqrs_cli.cli.app import PANELS
from cqrs_cli.cli.context import Call
from cqrs_cli.cli.render.record import record_document
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.personal_fields import personal_fields
from cqrs_cli.core.reserved import RESERVED_COMMANDS
from cqrs_cli.following.gateway.openapi import describe_api
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keys.keyring import load_keyring
from tests.core.personal.customer import CUSTOMER
from tests.support.page import Page

PAGE = Page("docs/personal.md")


def test_annotations_have_the_documented_values() -> None:
    (code,) = PAGE.blocks("python")
    namespace: dict[str, Any] = {"__name__": "page"}
    exec(code, namespace)  # noqa: S102 - the page's own text
    redacted_values = {
        field.name: field.redacted_value() for field in personal_fields(namespace["Registered"])
    }
    assert redacted_values == {"name": "", "mail": "nobody@invalid"}


@pytest.mark.parametrize("line", [line for block in PAGE.commands() for line in block])
def test_commands_of_the_page_are_valid(line: str) -> None:
    assert isinstance(main.parse(shlex.split(line)[1:]), Call)


def test_commands_in_the_text_exist() -> None:
    commands = {text.split()[1] for text in PAGE.text.split("`")[1::2] if text.startswith("cqrs ")}
    assert commands - {*PANELS} == set()
    assert {"erase", "keys", "verify"} <= commands


@pytest.mark.parametrize("recipe", PAGE.blocks("toml"))
def test_recipes_name_a_command(recipe: str) -> None:
    address = tomllib.loads(recipe)["keyring"]
    scheme, _, command = address.partition(":")
    assert scheme == "exec" and len(shlex.split(command)) > 3


def test_documented_keyring_can_be_read() -> None:
    """The keyring is a JSON object in a command's output, with the current KEK first."""
    document = msgspec.json.encode({"2026-11": "A" * 86 + "==", "2025-11": "B" * 86 + "=="}).decode()
    keyring = load_keyring(f"exec:echo {shlex.quote(document)}")
    assert keyring.current == "2026-11"


def test_documented_http_path_erases() -> None:
    ((path, command),) = re.findall(r"`POST (/customer/c-42/(\S+))`", PAGE.text)
    assert RESERVED_COMMANDS[command].is_for_services
    assert path.replace("c-42", "{id}") in describe_api([CUSTOMER], False, True, True)["paths"]


def test_documented_deletion_file_is_valid() -> None:
    """The file for `kafka-delete-records.sh` has the commands topic, and partition and offset as `tail` prints them."""
    (block,) = PAGE.blocks("json")
    (location,) = msgspec.json.decode(block)["partitions"]
    assert location.pop("topic") == Topics("customer", "").commands
    assert location.keys() == record_document(3, Record(1204, 0, b"c-42", b"{}")).keys() & location.keys()
    (call,) = PAGE.blocks("sh")
    assert call.startswith("kafka-delete-records.sh --bootstrap-server ")
