"""`cqrs verify`: prove that an aggregate's topics keep every promise."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.certifying import certify
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import (
    Conf,
    Master,
    complete_aggregate,
    complete_from,
    duration,
    spark_properties,
)
from cqrs_cli.cli.render.process import reactions_document, reactions_lines
from cqrs_cli.cli.render.verify import (
    nothing_compared,
    proving_text,
    verify_document,
    verify_lines,
    violations_text,
)
from cqrs_cli.errors import ConfigurationError, ContradictionError, UsageError
from cqrs_cli.words import counted

if TYPE_CHECKING:
    from cqrs_cli.jobs.verify.driver import Verified


@command(
    app,
    examples=[
        "cqrs verify bank_account",
        "cqrs verify bank_account --state",
        "cqrs verify bank_account -o json",
        "cqrs verify bank_account --since proved/",
        "cqrs verify --process checkout",
        "cqrs verify bank_account --certificate november.json",
        "cqrs verify bank_account --against november.json",
    ],
)
def verify(
    cli: Cli,
    aggregate: Annotated[
        str | None,
        typer.Argument(metavar="AGGREGATE", help="The aggregate's name.", autocompletion=complete_aggregate),
    ] = None,
    process: Annotated[
        str | None,
        typer.Option(
            "--process",
            metavar="NAME",
            help="Prove what a process sent instead, without Spark.",
            autocompletion=complete_from("processes"),
        ),
    ] = None,
    state: Annotated[
        bool, typer.Option("--state", help="Fold the events and compare with the live shards.")
    ] = False,
    longest_window: Annotated[
        str | None,
        typer.Option("--longest-window", metavar="DURATION", help="Of dedup_window, if it was longer once."),
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(
            "--since", metavar="DIR", help="Go on from the last verify that had this folder; begin one."
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            "--certificate", metavar="FILE", help="Hash the records and write the hashes; no proof."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against", metavar="FILE", help="Find what has changed since that certificate; no proof."
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Prove that an aggregate's topics keep every promise, on Spark; ends with 5 if not, naming each place.

    With --process: every event below the process's position has the commands that react gives for it, each once and
    where it belongs, and no other event has any. It reads the topics on this machine: 300 bytes of memory for each
    command that is still there.

    Every decided command has one outcome and no other has; events follow from commands, complete, with versions from 1
    on, one after the other, and the aggregate's code can read each; expected versions held; repetitions point to what
    they repeat; what failed is kept. Run it with the code that the owners run; they may be at work meanwhile. Commands
    that retention has deleted are counted, and what came of them is proved.

    It needs little memory, and temporary disk (TMPDIR): 400 bytes for each command, with --state what the shards take.
    An id that was decided again within dedup_window is a violation, and so is a repetition of what was decided before
    it. Where the window was changed, give the shortest there ever was, and with --longest-window the longest.

    With --since only what came since the last verify is read. DIR keeps how far it came, versions, remembered ids and
    what is open: 100 bytes for each aggregate, 400 for each command within dedup_window. Counts and violations add up:
    one that was found stays, and every later verify names it and ends with 5. A record that contradicts what was proved
    before makes its partition be proved from its beginning. DIR is for these topics and settings alone; the workers
    need it, too.

    A certificate holds the topics' ids, the partitions' ends, and a SHA-256 for each 10,000 offsets of each. --against
    reads again and names each stretch that was altered, cut off or replaced since, then ends with 5. With both the
    topics are read once. Records that retention has deleted since are counted; that of events is a change.
    """
    from cqrs_cli.jobs.engine.session import project_session
    from cqrs_cli.jobs.engine.slots import slots
    from cqrs_cli.jobs.verify.driver import plan_verify, proved_by, verify_topics
    from cqrs_cli.scans.verify.since import resumed_from

    if process is not None:
        if aggregate is not None or state or longest_window or since or certificate or against:
            raise UsageError(
                "--process is for a process alone", "leave out the aggregate, and what is for aggregates"
            )
        _verify_process(cli, process)
        return
    if aggregate is None:
        raise UsageError("which aggregate?", f"one of {', '.join(cli.aggregate_names())}, or --process NAME")
    spark = spark_properties(conf or ())
    cli.flags.update(master=master)
    if certificate is not None or against is not None:
        if state or longest_window or since:
            raise UsageError(
                "with a certificate nothing is proved", "leave --state, --since and --longest-window out"
            )
        certify(cli, aggregate, certificate, against, spark)
        return
    if state and since:
        raise UsageError("--state folds all events, --since reads the new ones only", "run one of them")
    longest = duration("--longest-window", longest_window) if longest_window else None
    settings = cli.settings
    if state or cli.aggregate_names():
        cli.aggregate(aggregate)
    else:
        cli.note(f"there is no code here: the events of {aggregate} are judged by their shape only")
    connection = cli.connection()
    shards = _existing_shards(cli, aggregate) if state else None
    wanted = plan_verify(connection, cli.topics(aggregate), settings, shards, longest)
    with ExitStack() as stack:
        if since is not None:
            work = stack.enter_context(resumed_from(since.absolute(), proved_by(wanted)))
            wanted = replace(wanted, since=work)
        say = stack.enter_context(cli.working("starting Spark"))
        context = stack.enter_context(project_session(settings, "verify", aggregate, spark))
        slots(context, note=cli.note)  # else a cluster without workers would let the job wait for ever
        done = verify_topics(context, wanted, lambda now: say(proving_text(aggregate, now, cli.is_live)))
    _say_what_was_skipped(cli, done)
    cli.result(verify_document(aggregate, done), "\n".join(verify_lines(aggregate, done)))
    cli.flush()
    _judge(aggregate, done)


def _verify_process(cli: Cli, name: str) -> None:
    from cqrs_cli.following.processes.load import load_process
    from cqrs_cli.following.processes.verify import verify_process

    settings = cli.settings
    loaded = load_process(name, settings.root, settings.aggregates)
    with cli.working("reading the positions") as say:
        found = verify_process(cli.connection(), settings, loaded, say)
    cli.result(reactions_document(name, found), "\n".join(reactions_lines(name, found)))
    cli.flush()
    if found.count:
        raise ContradictionError(
            f"{counted(found.count, 'violation')} in what process {name} sent",
            "docs/processes.md says what each means",
        )


def _existing_shards(cli: Cli, aggregate: str) -> Path:
    """The folder of the shards that an owner on this machine keeps; raises `ConfigurationError` if there is none."""
    from cqrs_cli.deciding.plan import shard_folder

    if cli.settings.store == "memory":
        raise ConfigurationError(
            'store = "memory": the states are in the memory of their owners, and no shard is on disk to compare',
            "leave out --state: the topics are proved, and states are rebuilt from them at each start",
        )
    folder = shard_folder(cli.settings.state_dir, cli.topics(aggregate))
    if not folder.is_dir():
        raise ConfigurationError(
            f"there are no shards of {aggregate} in {folder}", "run cqrs run first, or set state_dir"
        )
    return folder


def _judge(aggregate: str, done: "Verified") -> None:
    """Raise the error that decides the exit code, if there is one."""
    if done.violation_count:
        from cqrs_cli.kafka.fault import tail_command

        first = done.violations[0]
        raise ContradictionError(
            f"{violations_text(done)} in the topics of {aggregate}",
            f"look at the first: {tail_command(aggregate, first.kind, first.partition, first.offset)}",
        )
    if nothing_compared(done):
        raise ConfigurationError("no shard could be compared", "let cqrs run rebuild them, then verify again")


def _say_what_was_skipped(cli: Cli, done: "Verified") -> None:
    for partition, why in done.again.items():
        cli.note(f"partition {partition} was proved from its beginning: {why}")
    for partition, compared in done.compared.items():
        if compared.skipped:
            cli.note(f"the state of partition {partition} was not compared: {compared.skipped}")
