"""Lists dead letters and deferred commands."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from msgspec import Raw

from cqrs_cli.client.queries.dead_letters import FailedCommand, letter_document, read_letters
from cqrs_cli.client.queries.deferred import command_type, deferral_document, deferred_commands
from cqrs_cli.client.queries.selections import DeferralSelection, LetterSelection
from cqrs_cli.console.personal import hidden_data, redacted_member
from cqrs_cli.console.project import ConsoleProject
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.json import read_members
from cqrs_cli.core.messages.payload_reference import with_data


def list_letters(
    project: ConsoleProject,
    aggregate: str,
    selection: LetterSelection,
    undecided: bool,
    limit: int,
    sees_personal: bool,
) -> dict[str, Any]:
    """Return the first `limit` selected dead letters, and the number of all selected dead letters.

    `undecided`: select only the last dead letter of each command without a later decision.
    """
    letters = selected_letters(project, aggregate, selection, undecided)
    first = described_letters(project.aggregates[aggregate], islice(letters, limit), sees_personal)
    count = len(first) + sum(1 for _ in letters)
    return {"dead_letters": first, "count": count, "limited": count > limit}


def selected_letters(
    project: ConsoleProject, aggregate: str, selection: LetterSelection, undecided: bool
) -> Iterable[FailedCommand]:
    """Return an iterator over the selected dead letters, the oldest first. `undecided`: as in `list_letters`."""
    return read_letters(
        project.connection,
        project.topics(aggregate),
        lambda letter: selection.selects_letter(aggregate, letter),
        selection.since,
        undecided,
    )


def described_letters(
    aggregate: Aggregate, letters: Iterable[FailedCommand], sees_personal: bool
) -> list[dict[str, Any]]:
    """Return dead letters as JSON, each with the data of its command."""
    return [
        {
            **letter_document(letter),
            "data": Raw(_data_of(aggregate, letter, sees_personal)),
            **redacted_member(
                aggregate, "" if letter.command is None else letter.command.type, sees_personal
            ),
        }
        for letter in letters
    ]


def _data_of(aggregate: Aggregate, letter: FailedCommand, sees_personal: bool) -> bytes:
    if letter.command is None:
        return b"null"
    data = bytes(letter.command.data)
    return data if sees_personal else hidden_data(aggregate, letter.command.type, data)


def list_deferred(
    project: ConsoleProject, aggregate: str, selection: DeferralSelection, limit: int
) -> dict[str, Any]:
    """Return the first `limit` selected deferred commands by due time, and the number of all selected commands."""
    entries = selected_deferrals(project, aggregate, selection)
    return {
        "deferred": described_deferrals(project.aggregates[aggregate], entries[:limit]),
        "count": len(entries),
        "limited": len(entries) > limit,
    }


def selected_deferrals(
    project: ConsoleProject, aggregate: str, selection: DeferralSelection
) -> list[Deferral]:
    """Return the selected deferred commands, by due time."""
    return deferred_commands(
        project.connection,
        project.topics(aggregate),
        project.partitioner,
        lambda entry: selection.selects_deferral(aggregate, entry),
    )


def described_deferrals(aggregate: Aggregate, entries: Iterable[Deferral]) -> list[dict[str, Any]]:
    """Return deferred commands as JSON, with null in personal fields, for every reader: their values are encrypted."""
    documents = []
    for entry in entries:
        command, wire_type = entry.command, command_type(entry)
        if aggregate.has_personal_fields and (data := read_members(command).get("data")) is not None:
            command = with_data(command, hidden_data(aggregate, wire_type, bytes(data)))
        hidden_fields = redacted_member(aggregate, wire_type, sees_personal=False)
        documents.append({**deferral_document(entry, command), **hidden_fields})
    return documents
