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
MAX_TEXT = 160

_DIFFERENCE_TEXTS = {"events": "other events", "version": "another version"}


def whatif_result(aggregate: str, module: str, result: "DecidedAgain", target: "Target | None") -> Result:
    """Return the decisions that would differ: all numbers, and examples."""
    differences, lines = [], []
    for label, count in _ordered(result):
        examples = result.examples[label]
        difference = {"count": count, "examples": [one.document() for one in examples]}
        differences.append(dict(zip(("kind", "was", "would"), label, strict=True)) | difference)
        lines.append(f"{count:>9,}  {_label_text(label)}")
        lines += [f"           {printable(line)}" for one in examples for line in _example(one)]
        if count > len(examples):
            where = "all are written" if target else "--out DIR writes all"
            lines.append(f"           {count - len(examples):,} more are not shown: {where}")
    document: dict[str, Any] = {
        "aggregate": aggregate,
        "with": module,
        "commands": result.commands,
        "differing": result.decisions,
        "aggregates": result.aggregates,
        "states": result.states,
        "not_asked": result.not_asked,
        "differences": differences,
        "seconds": round(result.seconds, 3),
    }
    if result.not_asked:
        lines.append(
            f"not decided again, because workers died on them or they were given up: {result.not_asked:,}"
        )
    asked = f"{counted(result.commands, 'command')} decided again in {result.seconds:.1f} s"
    states = f"{result.states:,} of {counted(result.aggregates, 'aggregate')} would end in another state"
    lines.append(f"{aggregate} with {module}: {asked}, {result.decisions:,} with differences; {states}")
    if target is not None:
        document["out"] = target.folder
        lines.append(f"written to {target.folder}")
    return Result(document, lines)


def _ordered(result: "DecidedAgain") -> list[tuple["Label", int]]:
    order = ("outcome", "events", "version", "state")
    return sorted(result.counts.items(), key=lambda item: (order.index(item[0][0]), -item[1], item[0]))


def _label_text(label: "Label") -> str:
    kind, was, would = label
    if kind == "state":
        return {
            ("exists", "absent"): "would not exist",
            ("absent", "exists"): "would exist",
        }.get((was, would), "another state")
    if was != would:
        return f"{was} → {would}"
    if kind != "outcome":
        return f"{was}: {_DIFFERENCE_TEXTS[kind]}"
    return f"{was}: " + ("of another decision" if "BUSINESS_RULE" not in was else "another message")


def _example(one: "HistoryDifference") -> list[str]:
    place = "" if one.offset is None else f"{format_position(one.partition, one.offset)}  "
    head = f"{place}{one.subject or ''}  {one.type or ''}".rstrip()
    return [head, f"  was   {_short(one.was)}", f"  would {_short(one.would)}"]


def _short(value: bytes) -> str:
    text = value.decode()
    left = len(text) - MAX_TEXT
    return text if left <= 0 else f"{text[:MAX_TEXT]}… {left:,} more characters"
