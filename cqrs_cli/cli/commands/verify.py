"""`cqrs verify`: prove that an aggregate's topics, or what a process sent, keep every promise."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cqrs_cli.cli.app import CallableGroup, subgroup
from cqrs_cli.cli.command import call, command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import argument, complete_from, completing, duration, option
from cqrs_cli.cli.spark_session import SparkOptions, spark_session
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UsageError
from cqrs_cli.words import counted

if TYPE_CHECKING:
    from cqrs_cli.jobs.verify.driver import Verified
    from cqrs_cli.scans.verify.plan import ProofPlan

verify = subgroup("verify", "Prove that every promise was kept.", CallableGroup)


def _names(ctx: typer.Context) -> list[str]:
    """Aggregates, and as the first word the commands of the group."""
    commands = [] if ctx.params.get("aggregates") else [*getattr(ctx.command, "commands", {})]
    return [*commands, *Cli().aggregate_names()]


@dataclass(frozen=True)
class ProofOptions:
    """The topics that a proof takes in, and the earlier proof that it goes on from."""

    state: Annotated[bool, option("--state", "Fold the events and compare with the live shards.")] = False
    longest_window: Annotated[
        str | None, option("--longest-window DURATION", "Of dedup_window, if it was longer once.")
    ] = None
    kept: Annotated[
        str | None,
        option(
            "--continue FOLDER/",
            "Go on from the last verify that had this folder; begin one. It is written with a slash.",
        ),
    ] = None

    erased: Annotated[
        bool, option("--erased", "Prove that what was erased is gone, in topics and files.")
    ] = False
    look_in: Annotated[
        list[str] | None, option("--look-in PATH", "With --erased: a file or folder to look into, too.")
    ] = None

    def check(self, aggregates: list[str]) -> None:
        """Raise `UsageError` for options that do not go together."""
        if self.erased and (self.state or self.kept is not None):
            raise UsageError("--erased is a proof of its own", "leave out --state and --continue")
        if self.look_in and not self.erased:
            raise UsageError("--look-in looks for what was erased", "add --erased")
        if self.kept is None:
            return
        if self.state:
            raise UsageError(
                "--state folds all events, --continue reads the new ones only", "run one of them"
            )
        if len(aggregates) != 1:
            raise UsageError("a folder of --continue is for one aggregate", "name it")
        if "/" not in self.kept:
            raise UsageError(
                f"--continue {self.kept}: a folder is written with a slash", f"write --continue {self.kept}/"
            )


@call(
    verify,
    examples=[
        "cqrs verify bank_account",
        "cqrs verify",
        "cqrs verify bank_account --state",
        "cqrs verify bank_account -o json",
        "cqrs verify bank_account --continue proved/",
        "cqrs verify customer --erased --look-in projections.db",
    ],
)
def verify_aggregates(
    cli: Cli,
    aggregates: Annotated[
        list[str] | None, argument("AGGREGATE", "Default: all.", complete=completing(_names))
    ] = None,
    *,
    proof: ProofOptions,
    spark: SparkOptions,
) -> None:
    """Prove that the topics of aggregates keep every promise, on Spark; ends with 5 if not, naming each place.

    Every decided command has one outcome and no other has; events follow from commands, complete, with versions from 1
    on, one after the other, and the aggregate's code can read each; expected versions held; repetitions point to what
    they repeat; what failed is kept. Run it with the code that the owners run; they may be at work meanwhile. Commands
    that retention has deleted are counted, and what came of them is proved.

    It needs little memory, and temporary disk (TMPDIR): 400 bytes for each command, with --state what the shards take.
    An id that was decided again within dedup_window is a violation, and so is a repetition of what was decided before
    it. Where the window was changed, give the shortest there ever was, and with --longest-window the longest.

    With --continue only what came since the last verify is read. FOLDER keeps how far it came, versions, remembered ids
    and what is open: 100 bytes for each aggregate, 400 for each command within dedup_window. Counts and violations add
    up: one that was found stays, and every later verify names it and ends with 5. A record that contradicts what was
    proved before makes its partition be proved from its beginning. FOLDER is for these topics and settings alone, also
    once their partitions have grown; the workers need it, too.

    With --erased it proves, here and without Spark, that nothing is left of the aggregates that were erased: no ended
    key, no personal value in plain text in topics, shards, checkpoints, payloads and files that you name. In files it
    looks for values that commands still tell. It names what goes with retention, and when. TMPDIR holds a checkpoint.

    The names of the commands below are reserved: an aggregate called process is proved by `cqrs verify -- process`.
    """
    from cqrs_cli.cli.render.verify import proving_text
    from cqrs_cli.jobs.verify.driver import proved_by, verify_topics
    from cqrs_cli.scans.verify.since import resumed_from

    properties = spark.apply(cli)
    names = list(dict.fromkeys(aggregates or cli.chosen(None)))
    proof.check(names)
    if proof.erased:
        _prove_erased(cli, names, proof)
        return
    plans = {name: _plan(cli, name, proof) for name in names}
    errors: list[CqrsError] = []
    with ExitStack() as stack:
        if proof.kept is not None:
            folder, plan = Path(proof.kept).absolute(), plans[names[0]]
            work = stack.enter_context(resumed_from(folder, proved_by(plan)))
            plans = {names[0]: replace(plan, since=work)}
        context, _ = stack.enter_context(spark_session(cli, "verify", names, properties))
        for name, plan in plans.items():
            with cli.working(f"proving {name}") as say:
                done = verify_topics(context, plan, lambda now: say(proving_text(name, now, cli.is_live)))  # noqa: B023
            errors += _print(cli, name, done)
    _conclude(cli, errors)


@command(verify, "process", examples=["cqrs verify process checkout"])
def prove_processes(
    cli: Cli,
    names: Annotated[
        list[str] | None, argument("NAME", "Its file in `processes`.", complete=complete_from("processes"))
    ] = None,
) -> None:
    """Prove what processes sent; ends with 5 if not all is as it has to be.

    Every event below the process's position has the commands that react gives for it, each once and where it belongs,
    and no other event has any. It reads the topics on this machine, without Spark: 600 bytes of memory for each command
    that is still there.
    """
    from cqrs_cli.cli.render.process import proved
    from cqrs_cli.following.processes.load import load_process
    from cqrs_cli.following.processes.verify import verify_process

    if not names:
        raise UsageError(
            "which process?", "name it; an aggregate that is called process: cqrs verify -- process"
        )
    settings, errors = cli.settings, list[CqrsError]()
    processes = {name: load_process(name, settings.root, settings.aggregates) for name in names}
    for name, loaded in processes.items():
        with cli.working("reading the positions") as say:
            found = verify_process(cli.connection(), settings, loaded, say)
        cli.result(*proved(name, found))
        if found.count:
            what = f"{counted(found.count, 'violation')} in what process {name} sent"
            errors.append(ContradictionError(what, "docs/processes.md says what each means"))
    _conclude(cli, errors)


def _prove_erased(cli: Cli, names: list[str], proof: ProofOptions) -> None:
    """Print what is left of erased aggregates; raises the error that it is."""
    from cqrs_cli.cli.render.erased import proved_erased
    from cqrs_cli.scans.erased.prove import prove_erased

    errors, paths = list[CqrsError](), [Path(one).absolute() for one in proof.look_in or ()]
    for name in names:
        aggregate = cli.aggregate(name)
        if not aggregate.has_personal_fields:
            cli.note(f"{name} has no personal fields: nothing of it can be erased")
            continue
        with cli.working("looking for what was erased") as say:
            done = prove_erased(cli.connection(), cli.topics(name), aggregate, cli.settings, paths, say)
        cli.result(*proved_erased(name, done))
        if done.count:
            what = f"{counted(done.count, 'violation')}: something is left of what was erased from {name}"
            errors.append(ContradictionError(what, "docs/personal.md says what each means"))
    _conclude(cli, errors)


def _conclude(cli: Cli, errors: list[CqrsError]) -> None:
    cli.flush()
    if errors:
        raise max(errors, key=lambda error: error.exit_code)


def _plan(cli: Cli, aggregate: str, proof: ProofOptions) -> "ProofPlan":
    """A proof of what is committed now, with the aggregate's code if the project has code."""
    from cqrs_cli.jobs.verify.driver import plan_verify

    longest = duration("--longest-window", proof.longest_window) if proof.longest_window else None
    if proof.state or cli.aggregate_names():
        cli.aggregate(aggregate)
    else:
        cli.note(f"there is no code here: the events of {aggregate} are judged by their shape only")
    connection = cli.connection()
    shards = _existing_shards(cli, aggregate) if proof.state else None
    return plan_verify(connection, cli.topics(aggregate), cli.settings, shards, longest)


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


def _print(cli: Cli, aggregate: str, done: "Verified") -> list[CqrsError]:
    """Print the findings; the error that they are is returned, if they are one."""
    from cqrs_cli.cli.render.verify import nothing_compared, verified, violations_text

    for partition, why in done.again.items():
        cli.note(f"partition {partition} was proved from its beginning: {why}")
    for partition, compared in done.compared.items():
        if compared.skipped:
            cli.note(f"the state of partition {partition} was not compared: {compared.skipped}")
    cli.result(*verified(aggregate, done))
    cli.flush()
    if done.violation_count:
        what = f"{violations_text(done.violation_count)} in the topics of {aggregate}"
        return [done.violations[0].error(what, aggregate)]
    if nothing_compared(done):
        return [
            ConfigurationError("no shard could be compared", "let cqrs run rebuild them, then verify again")
        ]
    return []
