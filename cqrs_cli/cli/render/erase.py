"""The output of `cqrs erase`: the records of an aggregate with personal fields."""

from cqrs_cli.cli.output import printable
from cqrs_cli.cli.result import Result
from cqrs_cli.client.queries.personal import PersonalRecordCounts
from cqrs_cli.formatting import counted


def personal_records_result(aggregate: str, id: str, records: PersonalRecordCounts) -> Result:
    """Return the aggregate's records, and the effect of an erasure on them."""
    document = {
        "aggregate": aggregate,
        "id": id,
        "events": records.events,
        "plain_events": records.unencrypted,
        "deferred": records.deferred,
        "commands": records.commands,
        "dead_letters": records.dead_letters,
    }
    lines = [f"{aggregate} {id}: {counted(records.events, 'event')}, whose personal fields become unreadable"]
    if records.deferred:
        lines.append(f"{counted(records.deferred, 'deferred command')}: will be rejected, ERASED")
    if records.unencrypted:
        lines.append(plain_text_warning(records.unencrypted))
    if records.commands or records.dead_letters:
        counts = f"{counted(records.commands, 'command')} and {counted(records.dead_letters, 'dead letter')}"
        lines.append(f"{counts} with the values as they were sent, until retention deletes them")
    return Result(document, [printable(line) for line in lines])


def plain_text_warning(count: int) -> str:
    """Return the warning about unencrypted events, which were written before their fields were annotated."""
    return (
        f"{counted(count, 'event')} from before the fields were personal: their plain text stays, unless you"
        " replace the topic by a copy without these events"
    )
