"""The findings of `cqrs whatif`."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import printable
from cqrs_cli.cli.result import Result
from cqrs_cli.formatting import counted
from cqrs_cli.kafka.position_notation import format_position

if TYPE_CHECKING:
    from cqrs_cli.jobs.engine.staging import Target
    from cqrs_cli.jobs.whatif import DecidedAgain
    from cqrs_cli.proof.whatif.difference import HistoryDifference
    from cqrs_cli.scans.whatif.task import Label

#: Characters of an example's `was` and `would` for people.
MOST_TEXT = 160

_WORDS = {"events": "other events", "version": "another version"}


def decided_again(aggregate: str, module: str, done: "DecidedAgain", target: "Target | None") -> Result:
    """Return the decisions that would differ: all numbers, and examples."""
    differences, lines = [], []
    for label, count in _ordered(done):
        shown = done.examples[label]
        told = {"count": count, "examples": [one.document() for one in shown]}
        differences.append(dict(zip(("kind", "was", "would"), label, strict=True)) | told)
        lines.append(f"{count:>9,}  {_said(label)}")
        lines += [f"           {printable(line)}" for one in shown for line in _example(one)]
        if count > len(shown):
            where = "all are written" if target else "--out DIR writes all"
            lines.append(f"           {count - len(shown):,} more are not shown: {where}")
    document: dict[str, Any] = {
        "aggregate": aggregate,
        "with": module,
        "commands": done.commands,
        "differing": done.decisions,
        "aggregates": done.aggregates,
        "states": done.states,
        "not_asked": done.not_asked,
        "differences": differences,
        "seconds": round(done.seconds, 3),
    }
    if done.not_asked:
        lines.append(f"not asked, since workers died on them or they were given up: {done.not_asked:,}")
    asked = f"{counted(done.commands, 'command')} decided again in {done.seconds:.1f} s"
    states = f"{done.states:,} of {counted(done.aggregates, 'aggregate')} would end otherwise"
    lines.append(f"{aggregate} with {module}: {asked}, {done.decisions:,} of them otherwise; {states}")
    if target is not None:
        document["out"] = target.folder
        lines.append(f"written to {target.folder}")
    return Result(document, lines)


def _ordered(done: "DecidedAgain") -> list[tuple["Label", int]]:
    order = ("outcome", "events", "version", "state")
    return sorted(done.counts.items(), key=lambda item: (order.index(item[0][0]), -item[1], item[0]))


def _said(label: "Label") -> str:
    kind, was, would = label
    if kind == "state":
        return {
            ("exists", "absent"): "would not exist",
            ("absent", "exists"): "would exist",
        }.get((was, would), "another state")
    if was != would:
        return f"{was} → {would}"
    if kind != "outcome":
        return f"{was}: {_WORDS[kind]}"
    return f"{was}: " + ("of another decision" if "BUSINESS_RULE" not in was else "other words")


def _example(one: "HistoryDifference") -> list[str]:
    place = "" if one.offset is None else f"{format_position(one.partition, one.offset)}  "
    head = f"{place}{one.subject or ''}  {one.type or ''}".rstrip()
    return [head, f"  was   {_short(one.was)}", f"  would {_short(one.would)}"]


def _short(value: bytes) -> str:
    text = value.decode()
    left = len(text) - MOST_TEXT
    return text if left <= 0 else f"{text[:MOST_TEXT]}… {left:,} more characters"
