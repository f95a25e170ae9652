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

#: The maximal length, in characters, of an example's `was` and `would` in the text output.
MAX_TEXT = 160

_DIFFERENCE_TEXTS = {"events": "other events", "version": "different version"}


def whatif_result(aggregate: str, module: str, result: "DecidedAgain", target: "Target | None") -> Result:
    """Return the number of decisions that would differ, by kind of difference, with examples."""
    differences, lines = [], []
    for label, count in _sorted_counts(result):
        examples = result.examples[label]
        difference = {"count": count, "examples": [example.document() for example in examples]}
        differences.append(dict(zip(("kind", "was", "would"), label, strict=True)) | difference)
        lines.append(f"{count:>9,}  {_label_text(label)}")
        lines += [f"           {printable(line)}" for example in examples for line in _example_lines(example)]
        if count > len(examples):
            location = "all are written" if target else "--out DIR writes all"
            lines.append(f"           {count - len(examples):,} more are not shown: {location}")
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
    commands_text = f"{counted(result.commands, 'command')} decided again in {result.seconds:.1f} s"
    states_text = (
        f"{result.states:,} of {counted(result.aggregates, 'aggregate')} would end in a different state"
    )
    lines.append(
        f"{aggregate} with {module}: {commands_text}, {result.decisions:,} with differences; {states_text}"
    )
    if target is not None:
        document["out"] = target.folder
        lines.append(f"written to {target.folder}")
    return Result(document, lines)


def _sorted_counts(result: "DecidedAgain") -> list[tuple["Label", int]]:
    order = ("outcome", "events", "version", "state")
    return sorted(
        result.counts.items(),
        key=lambda label_count: (order.index(label_count[0][0]), -label_count[1], label_count[0]),
    )


def _label_text(label: "Label") -> str:
    kind, was, would = label
    if kind == "state":
        return {
            ("exists", "absent"): "would not exist",
            ("absent", "exists"): "would exist",
        }.get((was, would), "different state")
    if was != would:
        return f"{was} → {would}"
    if kind != "outcome":
        return f"{was}: {_DIFFERENCE_TEXTS[kind]}"
    return f"{was}: " + ("of another decision" if "BUSINESS_RULE" not in was else "another message")


def _example_lines(example: "HistoryDifference") -> list[str]:
    position = "" if example.offset is None else f"{format_position(example.partition, example.offset)}  "
    title = f"{position}{example.subject or ''}  {example.type or ''}".rstrip()
    return [title, f"  was   {_shortened(example.was)}", f"  would {_shortened(example.would)}"]


def _shortened(value: bytes) -> str:
    text = value.decode()
    excess = len(text) - MAX_TEXT
    return text if excess <= 0 else f"{text[:MAX_TEXT]}… {excess:,} more characters"
