"""The findings of `cqrs whatif`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import printable
from cqrs_cli.cli.render.report import Finding, Level, Report, SourceLine
from cqrs_cli.cli.result import Result
from cqrs_cli.formatting import counted
from cqrs_cli.kafka.position_notation import format_position

if TYPE_CHECKING:
    from cqrs_cli.jobs.engine.staging import Target
    from cqrs_cli.jobs.whatif import WhatifSummary
    from cqrs_cli.proof.whatif.difference import DifferenceKind, HistoryDifference, Label
    from cqrs_cli.proof.whatif.rules import RuleResult

#: The maximal length, in characters, of an example's `was` and `would` in the text output.
MAX_TEXT = 160

_DIFFERENCE_TEXTS = {"events": "other events", "version": "different version"}


def whatif_result(
    aggregate: str,
    module: str,
    result: "WhatifSummary",
    target: "Target | None",
    rule_results: "Sequence[RuleResult]" = (),
) -> Result:
    """Return the number of decisions that would differ, by kind of difference, with examples, and the rules."""
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
        "differing": result.differing_decisions,
        "aggregates": result.aggregates,
        "states": result.differing_states,
        "not_asked": result.skipped_commands,
        "differences": differences,
        "rules": [
            {
                "rule": rule_result.rule.text,
                "count": rule_result.differences,
                "of": rule_result.total,
                "exceeded": rule_result.is_exceeded,
            }
            for rule_result in rule_results
        ],
        "seconds": round(result.seconds, 3),
    }
    if result.skipped_commands:
        lines.append(
            f"not decided again, because workers died on them or they were given up: {result.skipped_commands:,}"
        )
    lines += [_rule_text(rule_result) for rule_result in rule_results]
    lines.append(_summary_text(aggregate, module, result))
    if target is not None:
        document["out"] = target.folder
        lines.append(f"written to {target.folder}")
    return Result(document, lines)


def whatif_report(
    aggregate: str,
    module: str,
    result: "WhatifSummary",
    rule_results: "Sequence[RuleResult]",
    locate: "Callable[[DifferenceKind], SourceLine]",
) -> Report:
    """Return the differences and the exceeded rules. Examples contain no data: a pull request may be public.

    `locate` returns the line to annotate for a kind of difference.
    """
    exceeded_rules = [rule_result.rule for rule_result in rule_results if rule_result.is_exceeded]
    findings = []
    for label, count in _sorted_counts(result):
        level: Level = "error" if any(rule.matches(label) for rule in exceeded_rules) else "warning"
        total = result.aggregates if label[0] == "state" else result.commands
        text = f"{_label_text(label)}: {count:,} of {total:,}{_example_positions(result.examples[label])}"
        findings.append(Finding(level, f"{label[0]}-differs", text, locate(label[0])))
    findings += [
        Finding("error", "fail-on", _rule_text(rule_result), locate(rule_result.rule.difference_kind))
        for rule_result in rule_results
        if rule_result.is_exceeded
    ]
    return Report(f"cqrs whatif {aggregate}", findings, _summary_text(aggregate, module, result))


def _rule_text(rule_result: "RuleResult") -> str:
    verdict = "exceeded" if rule_result.is_exceeded else "kept"
    return f"rule {rule_result.rule.text} is {verdict}: {rule_result.differences:,} of {rule_result.total:,}"


def _example_positions(examples: "list[HistoryDifference]") -> str:
    positions = [
        format_position(example.partition, example.offset)
        for example in examples
        if example.offset is not None
    ]
    return f", such as {', '.join(positions)}" if positions else ""


def _summary_text(aggregate: str, module: str, result: "WhatifSummary") -> str:
    commands_text = f"{counted(result.commands, 'command')} decided again in {result.seconds:.1f} s"
    aggregates_text = counted(result.aggregates, "aggregate")
    states_text = f"{result.differing_states:,} of {aggregates_text} would end in a different state"
    return f"{aggregate} with {module}: {commands_text}, {result.differing_decisions:,} with differences; {states_text}"


def _sorted_counts(result: "WhatifSummary") -> list[tuple["Label", int]]:
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
    return [title, f"  was   {_shortened_text(example.was)}", f"  would {_shortened_text(example.would)}"]


def _shortened_text(value: bytes) -> str:
    text = value.decode()
    excess = len(text) - MAX_TEXT
    return text if excess <= 0 else f"{text[:MAX_TEXT]}… {excess:,} more characters"
