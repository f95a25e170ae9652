"""The Spark session of a command, and the options --master and --conf."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import Conf, Master, spark_properties

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Properties for long-running tasks. An executor does little but start its tasks, so fast compilation matters more than
#: fast code: the replacement of a lost executor starts in half the processor time (2.7 s instead of 5.6 s, measured).
LONG_LIVED = {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"}


@dataclass(frozen=True)
class SparkOptions:
    """`--master` and `--conf`."""

    master: Master = None
    conf: Conf = None

    def apply(self, cli: Cli) -> dict[str, str]:
        """Set the master for this call; return the properties. Raises `UsageError` for an invalid property."""
        cli.flags.update(master=self.master)
        return spark_properties(self.conf or ())


class StartedSpark(NamedTuple):
    """A Spark context, and the number of tasks that can run at once."""

    context: "SparkContext"
    tasks: int


@contextmanager
def spark_session(
    cli: Cli, job: str, names: Iterable[str], properties: Mapping[str, str], packages: Iterable[str] = ()
) -> Iterator[StartedSpark]:
    """Start Spark with a spinner, and yield it. `job` and `names` are for the application's name: `cqrs run order`."""
    from cqrs_cli.jobs.engine.session import project_session
    from cqrs_cli.jobs.engine.slots import wait_for_slots

    with ExitStack() as stack:
        with cli.show_spinner("starting Spark"):
            session = project_session(cli.settings, job, " ".join(names), properties, packages)
            context = stack.enter_context(session)
            # Raises an error if there are no workers: the job would wait for ever.
            tasks = wait_for_slots(context, report=cli.print_note)
        yield StartedSpark(context, tasks)
