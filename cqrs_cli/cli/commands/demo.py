"""`cqrs demo`: a tour of cqrs in a project of its own."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import option
from cqrs_cli.cli.render.demo import ACCOUNTS, OUTCOMES, comparison_text, demo_document, read_model_columns
from cqrs_cli.cli.result import table
from cqrs_cli.errors import CqrsError
from cqrs_cli.extras import install_command, require

if TYPE_CHECKING:
    from pyspark import SparkContext

    from cqrs_cli.demo.checkout import OrderDemo, TracedOrder
    from cqrs_cli.demo.play import BankDemo, DemoResults, StoryResults
    from cqrs_cli.demo.read_model import ReadModel
    from cqrs_cli.settings.settings import Settings

#: Printed instead of the read model's rows if SQLAlchemy is not installed.
_WITHOUT_SQLALCHEMY = f"It needs SQLAlchemy: {install_command('projections')}"


@command(app, examples=["cqrs demo", "cqrs demo --serve"], extras=["spark"])
def demo(
    cli: Cli,
    with_console: Annotated[
        bool, option("--serve", "Then serve the demo's topics in the web console, until stopped.")
    ] = False,
) -> None:
    """Show cqrs at work: decide commands of a bank, and an order that times out, on Spark and Kafka.

    The demo uses its own project and embedded Kafka in .cqrs/demo, and stops the broker at its end. With -b or
    --command-config it uses another broker, and topics with the prefix "demo.".

    The command exits with 1 if an outcome or a replayed state is not as expected.
    """
    from cqrs_cli.demo import project

    if with_console:
        require("gateway", "--serve")
    started_at = time.monotonic()
    demo_cli = Cli(output=cli.output, quiet=cli.quiet, verbose=cli.verbose)
    demo_cli.settings = project.demo_settings(cli.settings, cli.flags)
    project.write_project(demo_cli.settings)
    with (
        project.exclusive_demo(
            demo_cli.settings.root,
            lambda: cli.print_note("another demo is running here: waiting for its end"),
        ),
        project.broker_stopped_afterwards(demo_cli.settings),
    ):
        results = _run_demo(demo_cli)
        seconds = round(time.monotonic() - started_at, 1)
        if with_console:
            _print_end(demo_cli, results, seconds)
            _serve_console(demo_cli)
    if not with_console:
        _print_end(demo_cli, results, seconds)
    if results.unexpected_results:
        raise CqrsError(
            "; ".join(results.unexpected_results),
            f"this is a bug of cqrs: the project in {demo_cli.settings.root} has the records",
        )


def _print_end(cli: Cli, results: "DemoResults", seconds: float) -> None:
    """Print the duration and the commands to type next; with JSON output, the whole document."""
    steps = _next_steps(cli.settings, next(iter(results.accounts)), results.timeout.order)
    next_text = f"To look around{_stopped_broker_note(cli.settings)}"
    cli.print_result(
        {
            **demo_document(results),
            "order": _order_document(results),
            "read_model": results.orders.rows if results.orders else None,
            "root": cli.settings.root,
            "seconds": seconds,
            "next": steps,
        },
        "\n".join(
            [
                f"That took {seconds:g} s. {next_text}:\n",
                *(f"  {step}" for step in steps),
                "",
                "A project of your own:\n\n  cqrs new shop",
            ]
        ),
    )
    cli.flush()


def _serve_console(cli: Cli) -> None:
    """Serve a console over the demo's project, on a free port."""
    from cqrs_cli.cli.commands.serve import serve
    from cqrs_cli.demo.read_model import DATABASE_FILE

    projections = f"sqlite:///{DATABASE_FILE}" if find_spec("sqlalchemy") else None
    serve(cli, port=0, projections=projections)


def _run_demo(cli: Cli) -> "DemoResults":
    """Run the demo and return its results. Text is printed after each part, JSON only at the end."""
    import secrets

    from cqrs_cli.demo import project
    from cqrs_cli.demo.checkout import OrderDemo
    from cqrs_cli.demo.play import BankDemo, DemoResults
    from cqrs_cli.demo.read_model import fill_read_model
    from cqrs_cli.demo.warm import warm_session
    from cqrs_cli.following.processes.load import PROCESSES
    from cqrs_cli.jobs.engine.session import project_session

    show = cli.stdout.print if cli.output == "text" else _print_nothing
    demo_name = secrets.token_hex(3)
    with ExitStack() as spark_stack, ThreadPoolExecutor(2) as pool:
        session = project_session(cli.settings, "demo", "", packages=[PROCESSES])
        # Spark and the broker start at the same time: each takes seconds
        context_future = pool.submit(warm_session, spark_stack, session)
        if not cli.settings.bootstrap_server:
            cli.broker(short_lived=True)
        connection = cli.connection()
        bank = BankDemo(cli.settings, connection, demo_name)
        order_demo = OrderDemo(cli.settings, connection, demo_name)
        with cli.show_spinner("creating topics, sending commands"):
            order_topics = pool.submit(order_demo.create_topics)
            bank.send()
            order_topics.result()
        with cli.show_spinner("starting Spark"):
            context = context_future.result()
        story, timeout, read_model_future = _run_story(
            cli,
            show,
            bank,
            order_demo,
            context,
            lambda: pool.submit(fill_read_model, cli.settings, connection, order_demo.order),
        )
        with cli.show_spinner("folding all events again"):
            live, replayed = bank.shard_tally(), bank.replay(context)
        show(comparison_text(live, replayed))
        with cli.show_spinner("filling a table from the events"):
            read_model = read_model_future.result()
    projection_file = f"projections/{project.PROJECTION}.py"
    show(f"The order as a row of a database; its projection is {projection_file}:\n")
    show(table(read_model.rows, read_model_columns(read_model.rows)) if read_model else _WITHOUT_SQLALCHEMY)
    show("")
    return DemoResults(story.decided, story.outcomes, story.accounts, live, replayed, timeout, read_model)


def _run_story(
    cli: Cli,
    show: Callable[[Any], None],
    bank: "BankDemo",
    order_demo: "OrderDemo",
    context: "SparkContext",
    fill_in_background: "Callable[[], Future[ReadModel | None]]",
) -> "tuple[StoryResults, TracedOrder, Future[ReadModel | None]]":
    """Run the owners and the process manager, and show the results.

    While the order waits for its payment, the bank's outcomes and accounts are shown. While the run ends, the read
    model is filled, and the order's events and commands are shown.
    """
    from cqrs_cli.cli.render.queries.trace import trace_text
    from cqrs_cli.demo.project import PAYMENT_TIMEOUT, PROCESS
    from cqrs_cli.following.processes.load import PROCESSES

    # `show_timeout` appends the only element.
    timeouts: list[tuple[TracedOrder, Future[ReadModel | None]]] = []
    with ExitStack() as spinner:
        spinner.enter_context(cli.show_spinner("deciding"))

        def show_story(story: "StoryResults") -> None:
            spinner.close()
            show(f"{len(story.outcomes)} records were sent to {bank.topics.commands}. Their outcomes:\n")
            show(table(enumerate(story.outcomes, 1), OUTCOMES))
            show("\nThe accounts, folded from their events:\n")
            show(table(story.accounts.items(), ACCOUNTS))
            spinner.enter_context(cli.show_spinner(f"waiting for a payment, {PAYMENT_TIMEOUT} s"))

        def show_timeout() -> None:
            spinner.close()
            read_model_future = fill_in_background()
            timeouts.append((order_demo.trace_order(), read_model_future))
            show(
                f"An order that is not paid: the process manager {PROCESSES}/{PROCESS}.py "
                f"cancels it after {PAYMENT_TIMEOUT} s:\n"
            )
            show(trace_text(timeouts[0][0].trees))
            spinner.enter_context(cli.show_spinner("ending the run"))

        story = bank.run(context, order_demo, show_story, show_timeout)
    return story, *timeouts[0]


def _order_document(results: "DemoResults") -> dict[str, Any]:
    """Return the JSON document of the order, with its events and commands."""
    from cqrs_cli.client.queries.trace_document import command_document
    from cqrs_cli.demo.project import PAYMENT_TIMEOUT

    order, lineage = results.timeout
    return {
        "id": order,
        "patience_seconds": PAYMENT_TIMEOUT,
        "commands": [command_document(node) for node in lineage.roots],
    }


def _print_nothing(_: object) -> None:
    """Ignore a part of the tour: with `-o json`, one document is printed at the end."""


def _stopped_broker_note(settings: "Settings") -> str:
    """Return a note that the embedded broker is stopped; empty if it runs."""
    from cqrs_cli.kafka.embedded import broker

    if settings.bootstrap_server or broker.broker_status(settings.root) is not None:
        return ""
    return " (Kafka is stopped: the next command starts it)"


def _next_steps(settings: "Settings", account: str, order: str) -> list[str]:
    """Return the commands to type next, in the user's current folder."""
    environment = os.path.relpath(sys.prefix)
    if environment.startswith(".."):
        environment = sys.prefix
    return [
        *([] if shutil.which("cqrs") else [f". {shlex.quote(environment)}/bin/activate"]),
        f"cd {shlex.quote(os.path.relpath(settings.root))}",
        f"cqrs show bank_account {account} --history",
        "cqrs tail bank_account outcomes",
        f"cqrs send bank_account {account} Withdraw amount=10 --expect 4",
        "cqrs run --once",
        f"cqrs trace {order}",
        *(["cqrs project recent_orders --once"] if find_spec("sqlalchemy") else []),
        *(["cqrs serve"] if find_spec("starlette") else []),
        *([] if settings.bootstrap_server else ["cqrs kafka stop"]),
    ]
