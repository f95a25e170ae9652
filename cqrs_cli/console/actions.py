"""An operator's actions on dead letters, deferred commands and stopped process managers, each with a preview."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from cqrs_cli.client.envelope import Attribution
from cqrs_cli.client.queries.dead_letters import FailedCommand, oldest_letters, retry_command
from cqrs_cli.client.queries.operations import (
    RequestType,
    drop_letters,
    retry_letters,
    send_requests,
)
from cqrs_cli.client.queries.selection_digest import LetterDigest, deferral_digest, letter_digest
from cqrs_cli.client.queries.selections import (
    CommandSelection,
    DeferralSelection,
    LetterSelection,
    check_letter_reasons,
)
from cqrs_cli.console.letters import (
    described_deferrals,
    described_letters,
    selected_deferrals,
    selected_letters,
)
from cqrs_cli.console.parameters import aggregate_of, parse_time
from cqrs_cli.console.project import ConsoleProject
from cqrs_cli.console.skips import skip_stopping_event
from cqrs_cli.following.gateway.gateway import Problem
from cqrs_cli.following.gateway.token import Access
from cqrs_cli.settings.moments import parse_deadline

#: Maximum number of items in a preview.
_PREVIEW = 100


class ActionRequest(Struct, forbid_unknown_fields=True):
    """The body of an action: filters that select dead letters or deferred commands, or the event to skip.

    Filters without a value match everything. `all`: True if no filter is intended. `selection`: the digest in the
    preview that the operator has seen.
    """

    aggregate: str
    id: str | None = None
    aggregate_id: str | None = None
    types: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()  # filter of dead letters
    reason: str | None = None  # filter of deferred commands
    since: str | None = None
    before: str | None = None
    all: bool = False
    selection: str | None = None
    process: str | None = None
    partition: int | None = None  # partition of the event to skip
    offset: int | None = None  # offset of the event to skip

    def check_selection(self, count: int, digest: str) -> None:
        """Raise `Problem` 409 if the filters do not select the commands that the operator has seen.

        `count`, `digest`: of the commands that they select now.
        """
        if self.selection not in (None, digest):
            raise Problem(
                409,
                "the selection has changed",
                f"the filters select other commands than in the preview, {count:,} now: preview the action again",
                {"count": count, "selection": digest},
            )

    def letters(self) -> LetterSelection:
        """Return the selected dead letters; raises `Problem` 400 and `UsageError`."""
        check_letter_reasons("reasons", self.reasons)
        since, before = parse_time("since", self.since), parse_time("before", self.before)
        selection = LetterSelection(self.id, self.aggregate_id, self.types, self.reasons, since, before)
        self._check(selection, self.reason is None)
        return selection

    def deferrals(self) -> DeferralSelection:
        """Return the selected deferred commands; raises `Problem` 400."""
        before = parse_time("before", self.before, parse_deadline)
        selection = DeferralSelection(self.id, self.aggregate_id, self.types, self.reason, before)
        self._check(selection, not self.reasons and self.since is None)
        return selection

    def _check(self, selection: CommandSelection, has_known_filters: bool) -> None:
        if not has_known_filters:
            raise Problem(400, "a filter of another action", "GET /openapi.json describes the filters")
        if not (selection or self.all):
            raise Problem(400, "nothing is selected", 'give a filter, or "all": true')


#: Performs an action and returns its result, or returns a preview: (project, request, access, is dry run) → document.
Action = Callable[[ConsoleProject, ActionRequest, Access, bool], dict[str, Any]]


def retry(
    project: ConsoleProject, request: ActionRequest, access: Access, is_dry_run: bool
) -> dict[str, Any]:
    """Send the commands of open dead letters again."""
    aggregate, selection = aggregate_of(project, request.aggregate), request.letters()

    def open_letters() -> Iterable[FailedCommand]:
        return selected_letters(project, aggregate, selection, undecided=True)

    if is_dry_run:
        return _preview(project, request, open_letters(), access)
    letters = open_letters()
    if request.selection is not None:
        digest = letter_digest(_readable(aggregate, letters))
        request.check_selection(digest.count, digest.text)
        letters = digest.without_later(_readable(aggregate, open_letters()))
    topics, attribution = project.topics(aggregate), Attribution(access.name, "retry")
    result = retry_letters(project.connection, project.partitioner, topics, letters, attribution)
    return {"sent": result.sent.total, "unreadable": result.unreadable}


def _readable(aggregate: str, letters: Iterable[FailedCommand]) -> Iterable[FailedCommand]:
    """Return the letters that can be retried."""
    return (letter for letter in letters if retry_command(aggregate, letter) is not None)


def drop(project: ConsoleProject, request: ActionRequest, access: Access, is_dry_run: bool) -> dict[str, Any]:
    """Delete the oldest dead letters. Kafka can only delete the first records of a partition."""
    aggregate, selection = aggregate_of(project, request.aggregate), request.letters()
    if selection.before is None or selection != LetterSelection(before=selection.before):
        raise Problem(400, "only before selects dead letters to drop", "Kafka deletes the oldest records")

    def letters() -> Iterable[FailedCommand]:
        return oldest_letters(
            selected_letters(project, aggregate, LetterSelection(), undecided=False),
            lambda letter: selection.selects_letter(aggregate, letter),
        )

    if is_dry_run:
        return _preview(project, request, letters(), access, drops=True)
    digest = letter_digest(letters())
    request.check_selection(digest.count, digest.text)
    topics, attribution = project.topics(aggregate), Attribution(access.name, "drop")
    selected = digest.without_later(letters())
    dropped = drop_letters(project.connection, topics, selected, selection.before, attribution)
    return {"dropped": dropped}


def _preview(
    project: ConsoleProject,
    request: ActionRequest,
    letters: Iterable[FailedCommand],
    access: Access,
    drops: bool = False,
) -> dict[str, Any]:
    shown, digest, unreadable = list[FailedCommand](), LetterDigest(), 0
    for letter in letters:
        if not drops and retry_command(request.aggregate, letter) is None:
            unreadable += 1
            continue
        digest.add(letter)
        if len(shown) < _PREVIEW:
            shown.append(letter)
    aggregate = project.aggregates[request.aggregate]
    documents = described_letters(aggregate, shown, "personal" in access.rights)
    return {
        "count": digest.count,
        "selection": digest.text,
        "unreadable": unreadable,
        "dead_letters": documents,
    }


def _request_action(request_type: RequestType, verb: str) -> Action:
    def act(
        project: ConsoleProject, request: ActionRequest, access: Access, is_dry_run: bool
    ) -> dict[str, Any]:
        aggregate = aggregate_of(project, request.aggregate)
        entries = selected_deferrals(project, aggregate, request.deferrals())
        digest = deferral_digest(entries)
        if is_dry_run:
            described = described_deferrals(project.aggregates[aggregate], entries[:_PREVIEW])
            return {"count": len(entries), "selection": digest, "deferred": described}
        request.check_selection(len(entries), digest)
        attribution = Attribution(access.name, verb)
        sent = send_requests(
            project.connection,
            project.partitioner,
            project.topics(aggregate),
            entries,
            request_type,
            attribution,
        )
        return {"sent": sent.total}

    return act


def skip(project: ConsoleProject, request: ActionRequest, access: Access, is_dry_run: bool) -> dict[str, Any]:
    """Skip the event that stopped a process manager."""
    process, partition, offset = request.process, request.partition, request.offset
    if process is None or partition is None or offset is None:
        raise Problem(400, "no event is selected", "give process, aggregate, partition and offset")
    aggregate = aggregate_of(project, request.aggregate)
    return skip_stopping_event(project, process, aggregate, partition, offset, access, is_dry_run)


#: (first, second segment of the path below `/api`) → action.
ACTIONS: dict[tuple[str, str], Action] = {
    ("dead-letters", "retry"): retry,
    ("dead-letters", "drop"): drop,
    ("deferred", "release"): _request_action("cqrs.Release", "release"),
    ("deferred", "cancel"): _request_action("cqrs.Cancel", "cancel"),
    ("processes", "skip"): skip,
}
