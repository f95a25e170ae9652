"""`cqrs whatif`: decide past commands again with other code."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, ReportOutput, option, parse_option, time_option
from cqrs_cli.cli.output import job_progress_text
from cqrs_cli.cli.positions import read_positions
from cqrs_cli.cli.render.queries.whatif import whatif_report, whatif_result
from cqrs_cli.cli.render.report import SourceLine, print_report, source_line
from cqrs_cli.cli.spark_session import SparkOptions, spark_session
from cqrs_cli.cli.target import target_folder
from cqrs_cli.errors import RuleError, UsageError

if TYPE_CHECKING:
    from cqrs_cli.core.aggregate.aggregate import Aggregate
    from cqrs_cli.proof.whatif.difference import DifferenceKind
    from cqrs_cli.proof.whatif.rules import DifferenceRule, RuleResult


@command(
    app,
    examples=[
        "cqrs whatif bank_account --with drafts.bank_account",
        "cqrs whatif bank_account --with drafts.bank_account --at @yesterday.json --fail-on 'accepted->rejected>0'",
    ],
    extras=["spark"],
)
def whatif(
    cli: Cli,
    aggregate: AggregateName,
    module: Annotated[
        str, option("--with MODULE", "The module with the other code, drafts.bank_account, or its file.")
    ],
    since: Annotated[
        str | None,
        option("--since TIME", "Decide commands since this time: 7d ago, 2026-11-21, or RFC 3339."),
    ] = None,
    at: Annotated[
        str | None,
        option(
            "--at TIME|@FILE",
            "Decide commands up to this time, or to the offsets in a file, such as a certificate.",
        ),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        option(
            "--fail-on RULE",
            "Exit with 9 if there are more differences than this rule allows, such as 'state>1%'; repeatable.",
        ),
    ] = None,
    out: Annotated[str | None, option("--out DIR", "Write each difference as a line of JSON.")] = None,
    output: ReportOutput = "text",
    *,
    spark: SparkOptions,
) -> None:
    """Decide past commands again with other code, on Spark, and report the differences.

    The other code folds the events before --since, then decides each later command with the command's own time. cqrs
    whatif writes to no topic.

    It compares outcomes, events, versions and the final states. -o also accepts github, sarif and markdown.
    docs/insight.md explains the differences and the rules of --fail-on.
    """
    from cqrs_cli import registry
    from cqrs_cli.jobs.whatif import decide_all_again
    from cqrs_cli.scans.whatif.plan import plan_whatif

    properties = spark.apply(cli)
    settings = cli.settings
    rules = [_parse_fail_on(rule) for rule in fail_on or ()]
    ends = read_positions("--at", at, cli.topics(aggregate).commands)
    since_ms, until_ms = _time_range(since, at if ends is None else None)
    target = None if out is None else target_folder(out, "json")
    cli.aggregate(aggregate)
    module_name = _module_name(module, settings.root)
    other_code = registry.load_from(aggregate, module_name, settings.root)
    plan = plan_whatif(
        cli.connection(), cli.topics(aggregate), settings, module_name, since_ms, until_ms, ends
    )
    package = module_name.partition(".")[0]
    packages = () if package == settings.aggregates else (package,)
    title = f"deciding {aggregate} again"
    with (
        spark_session(cli, "whatif", [aggregate], properties, packages) as (context, _),
        cli.show_spinner(title) as show_text,
    ):
        result = decide_all_again(
            context,
            plan,
            target,
            lambda progress: show_text(job_progress_text(title, progress, "records", cli.is_live)),
        )
    for partition in result.incomplete_partitions:
        cli.print_note(
            f"partition {partition}: retention has deleted commands of that time; the others are decided again"
        )
    rule_results = [rule.result(result.counts, result.commands, result.aggregates) for rule in rules]
    if output == "text" or output == "json":
        cli.print_result(*whatif_result(aggregate, module_name, result, target, rule_results))
    else:
        locate = partial(_source_line, other_code, module_name, settings.root)
        print_report(cli, whatif_report(aggregate, module_name, result, rule_results, locate), output)
    cli.flush()
    if rules and not result.commands:
        cli.print_note("no command was decided again, so --fail-on has nothing to check", "warning")
    _enforce(rule_results)


def _enforce(rule_results: "Sequence[RuleResult]") -> None:
    """Raise `RuleError` if a rule is exceeded."""
    if exceeded_rules := [rule_result.rule.text for rule_result in rule_results if rule_result.is_exceeded]:
        raise RuleError(
            f"the other code differs more often than --fail-on allows: {', '.join(exceeded_rules)}",
            "correct the code, or raise the limit",
        )


def _time_range(since: str | None, at: str | None) -> tuple[int | None, int | None]:
    """Return the times of --since and --at in ms; raises `UsageError` for an empty range."""
    since_ms = None if since is None else time_option("--since", since)
    until_ms = None if at is None else time_option("--at", at)
    if since_ms is not None and since_ms > time.time_ns() // 1_000_000:
        raise UsageError(f"--since {since} is in the future", "give a past time")
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise UsageError(f"--since {since} is after --at {at}", "swap them")
    return since_ms, until_ms


def _parse_fail_on(text: str) -> "DifferenceRule":
    """Return a rule of --fail-on; raises `UsageError`, which contains the allowed forms."""
    from cqrs_cli.proof.whatif.rules import RULE_FORMS, parse_rule

    return parse_option("--fail-on", text, parse_rule, RULE_FORMS)


def _source_line(code: "Aggregate", module: str, root: Path, kind: "DifferenceKind") -> SourceLine:
    """Return the line that may have caused a difference: of `evolve` for a state, else of `decide`."""
    function = code.decider.evolve if kind == "state" else code.decider.decide
    return source_line(function, root / f"{module.replace('.', '/')}.py", root)


def _module_name(module: str, root: Path) -> str:
    """Return the dotted name of a module, which the user may also name by its file."""
    if not module.endswith(".py"):
        return module
    file = Path(module).absolute()
    if not file.is_relative_to(root.absolute()):
        raise UsageError(f"{module} is not in the project {root}", "put it into a folder there")
    return ".".join(file.relative_to(root.absolute()).with_suffix("").parts)
