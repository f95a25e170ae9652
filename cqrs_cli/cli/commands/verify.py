"""`cqrs verify`: verify that an aggregate's topics, or the commands of a process manager, keep every promise."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, complete_modules, duration_option, option
from cqrs_cli.cli.spark_session import SparkOptions, spark_session
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UsageError
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.following.processes.load import LoadedProcess
    from cqrs_cli.jobs.verify.driver import VerifySummary
    from cqrs_cli.scans.verify.plan import VerificationPlan
    from cqrs_cli.telemetry.task_reports import JobProgress


@dataclass(frozen=True)
class VerifyOptions:
    """The checks of a verification, and the earlier verification that it continues."""

    state: Annotated[bool, option("--state", "Compare the folded events with the shards, too.")] = False
    longest_window: Annotated[
        str | None,
        option(
            "--longest-window DURATION",
            "If dedup_window was changed: its longest value. Set dedup_window itself to the shortest.",
        ),
    ] = None
    incremental: Annotated[
        str | None, option("--incremental DIR", "Read only records since the last verify with this folder.")
    ] = None
    erased: Annotated[
        bool, option("--erased", "Verify instead that topics and files contain no erased data.")
    ] = False
    scan_paths: Annotated[
        list[str] | None,
        option("--scan-path PATH", "Search this file or folder for erased data; repeatable."),
    ] = None

    def check_combination(self, aggregates: list[str]) -> None:
        """Raise `UsageError` for options that do not go together."""
        if self.erased and (self.state or self.incremental is not None):
            raise UsageError("--erased is a verification of its own", "leave out --state and --incremental")
        if self.scan_paths and not self.erased:
            raise UsageError("--scan-path searches for erased data", "add --erased")
        if not aggregates and (
            self.state or self.erased or self.incremental is not None or self.longest_window
        ):
            raise UsageError(
                "--state, --longest-window, --incremental and --erased need an aggregate", "name it"
            )
        if self.incremental is None:
            return
        if self.state:
            raise UsageError("--state folds all events, --incremental only new events", "run one of them")
        if len(aggregates) != 1:
            raise UsageError("a folder of --incremental is for one aggregate", "name it")


@command(
    app, examples=["cqrs verify bank_account --state", "cqrs verify --process checkout"], extras=["spark"]
)
def verify(
    cli: Cli,
    aggregates: AggregateNames = None,
    processes: Annotated[
        list[str] | None,
        option(
            "--process NAME",
            "Verify the commands of this process manager; repeatable.",
            complete=complete_modules("processes"),
        ),
    ] = None,
    *,
    options: VerifyOptions,
    spark: SparkOptions,
) -> None:
    """Verify from the topics alone that each promise of cqrs was kept; exit with 5 if not.

    Without names it verifies all aggregates, on Spark; runs may be active. With --process it verifies that a process
    manager sent exactly the commands that its events require.

    Each violation names its record. docs/guarantees.md lists the promises, docs/insight.md explains --state and
    --incremental, docs/personal.md --erased, docs/processes.md --process.
    """
    properties = spark.apply(cli)
    names = list(dict.fromkeys(aggregates or (() if processes else cli.selected_aggregates(None))))
    options.check_combination(names)
    loaded_processes = _load_processes(cli, processes or ())
    errors = _verify_processes(cli, loaded_processes)
    if names and options.erased:
        errors += _verify_erased(cli, names, options)
    elif names:
        errors += _verify_aggregates(cli, names, options, properties)
    cli.flush()
    if errors:
        raise max(errors, key=lambda error: error.exit_code)


def _verify_aggregates(
    cli: Cli, names: list[str], options: VerifyOptions, properties: dict[str, str]
) -> list[CqrsError]:
    """Verify the aggregates on Spark, and print the findings; return an error for each aggregate with a violation."""
    from cqrs_cli.cli.render.verify import verifying_text
    from cqrs_cli.jobs.verify.driver import checkpoint_scope, verify_topics
    from cqrs_cli.scans.verify.checkpoints import new_checkpoint

    plans = {name: _plan_verification(cli, name, options) for name in names}
    errors: list[CqrsError] = []
    with ExitStack() as stack:
        if options.incremental is not None:
            folder, plan = Path(options.incremental).absolute(), plans[names[0]]
            checkpoints = stack.enter_context(new_checkpoint(folder, checkpoint_scope(plan)))
            plans = {names[0]: replace(plan, checkpoints=checkpoints)}
        context, _ = stack.enter_context(spark_session(cli, "verify", names, properties))
        for name, plan in plans.items():
            with cli.show_spinner(f"verifying {name}") as show_text:

                def show(progress: "JobProgress", name: str = name) -> None:
                    show_text(verifying_text(name, progress, cli.is_live))

                summary = verify_topics(context, plan, show)
            errors += _print_findings(cli, name, summary)
    return errors


def _load_processes(cli: Cli, names: "Sequence[str]") -> "dict[str, LoadedProcess]":
    """Load these process managers; raises `CqrsError` before anything is verified."""
    from cqrs_cli.following.processes.load import load_process

    settings = cli.settings
    return {name: load_process(name, settings.root, settings.aggregates) for name in names}


def _verify_processes(cli: Cli, processes: "Mapping[str, LoadedProcess]") -> list[CqrsError]:
    """Verify the commands of process managers, and print the findings.

    Return an error for each process manager with a violation.
    """
    from cqrs_cli.cli.render.process import process_verify_result
    from cqrs_cli.following.processes.verify import verify_process

    errors: list[CqrsError] = []
    for name, loaded_process in processes.items():
        with cli.show_spinner("reading the positions") as show_text:
            findings = verify_process(cli.connection(), cli.settings, loaded_process, show_text)
        cli.print_result(*process_verify_result(name, findings))
        cli.flush()
        if findings.violation_count:
            text = f"{counted(findings.violation_count, 'violation')} in the commands of process {name}"
            errors.append(ContradictionError(text, "docs/processes.md explains each violation"))
    return errors


def _verify_erased(cli: Cli, names: list[str], options: VerifyOptions) -> list[CqrsError]:
    """Search for erased data, and print the findings; return an error for each aggregate with a violation."""
    from cqrs_cli.cli.render.erased import erased_result
    from cqrs_cli.scans.erased.verify import verify_erasure

    errors: list[CqrsError] = []
    paths = [Path(path).absolute() for path in options.scan_paths or ()]
    for name in names:
        aggregate = cli.aggregate(name)
        if not aggregate.has_personal_fields:
            cli.print_note(f"{name} has no personal fields, and so no erased data")
            continue
        with cli.show_spinner("searching for erased data") as show_text:
            summary = verify_erasure(
                cli.connection(), cli.topics(name), aggregate, cli.settings, paths, show_text
            )
        cli.print_result(*erased_result(name, summary))
        if summary.violation_count:
            text = f"{counted(summary.violation_count, 'violation')}: erased data of {name} still exists"
            errors.append(ContradictionError(text, "docs/personal.md explains each violation"))
    return errors


def _plan_verification(cli: Cli, aggregate: str, options: VerifyOptions) -> "VerificationPlan":
    """Plan the verification of the records that are committed now, with the aggregate's code if the project has it."""
    from cqrs_cli.scans.verify.plan import plan_verify

    longest_window = (
        duration_option("--longest-window", options.longest_window) if options.longest_window else None
    )
    if options.state or cli.aggregate_names():
        cli.aggregate(aggregate)
    else:
        cli.print_note(
            f"this project has no aggregates: the events of {aggregate} are verified without their code"
        )
    connection = cli.connection()
    shards_folder = _existing_shards_folder(cli, aggregate) if options.state else None
    return plan_verify(connection, cli.topics(aggregate), cli.settings, shards_folder, longest_window)


def _existing_shards_folder(cli: Cli, aggregate: str) -> Path:
    """Return the folder of the aggregate's shards on this machine; raises `ConfigurationError` if it does not exist."""
    from cqrs_cli.deciding.plan import shards_folder_of

    if cli.settings.store == "memory":
        raise ConfigurationError(
            'store = "memory": owners keep their states in memory, so there is no shard to compare',
            "leave out --state: each start folds the states from the topics",
        )
    folder = shards_folder_of(cli.settings.state_dir, cli.topics(aggregate))
    if not folder.is_dir():
        raise ConfigurationError(
            f"there are no shards of {aggregate} in {folder}", "run cqrs run first, or set state_dir"
        )
    return folder


def _print_findings(cli: Cli, aggregate: str, summary: "VerifySummary") -> list[CqrsError]:
    """Print the findings; return a list with an error if there are violations, or if no shard was compared."""
    from cqrs_cli.cli.render.verify import nothing_compared, verify_result, violations_text

    for partition, reason in summary.restart_reasons.items():
        cli.print_note(f"partition {partition} was verified from its beginning: {reason}")
    for partition, comparison in summary.comparisons.items():
        if comparison.skip_reason:
            cli.print_note(f"the state of partition {partition} was not compared: {comparison.skip_reason}")
    cli.print_result(*verify_result(aggregate, summary))
    cli.flush()
    if summary.violation_count:
        text = f"{violations_text(summary.violation_count)} in the topics of {aggregate}"
        return [summary.violations[0].error(text, aggregate)]
    if nothing_compared(summary):
        return [
            ConfigurationError("no shard could be compared", "let cqrs run rebuild them, then verify again")
        ]
    return []
