"""`cqrs demo`: the tour."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.render.demo import ACCOUNTS, OUTCOMES, comparison_text, demo_document, read_model_columns
from cqrs_cli.cli.result import table
from cqrs_cli.errors import CqrsError
from cqrs_cli.extras import install

if TYPE_CHECKING:
    from pyspark import SparkContext

    from cqrs_cli.demo.checkout import CheckoutPlay, Timeout
    from cqrs_cli.demo.play import Performance, Play, StoryTold
    from cqrs_cli.demo.read_model import ReadModel
    from cqrs_cli.settings.settings import Settings


#: The text in the place of rows.
_MISSING = f"It needs SQLAlchemy: {install('projections')}"


@command(app, examples=["cqrs demo"], extras=["spark"])
def demo(cli: Cli) -> None:
    """Play a tour: commands of a bank, and an order that times out, decided on Spark and Kafka.

    The tour uses its own project and embedded Kafka in .cqrs/demo, and stops the broker at its end. With -b or
    --command-config it uses that broker, and topics with the prefix "demo.".

    The command exits with 1 if an outcome or the replay differs from the expected one.
    """
    from cqrs_cli.demo import project

    began = time.monotonic()
    demo_cli = Cli(output=cli.output, quiet=cli.quiet, verbose=cli.verbose)
    demo_cli.settings = project.demo_settings(cli.settings, cli.flags)
    root = demo_cli.settings.root
    project.write_project(demo_cli.settings)
    with (
        project.alone(root, lambda: cli.print_note("another demo is running here: waiting for its end")),
        project.broker_left_as_found(demo_cli.settings),
    ):
        performance = _perform(demo_cli)
    seconds = round(time.monotonic() - began, 1)
    steps = _next(demo_cli.settings, next(iter(performance.accounts)), performance.timeout.order)
    new_project_text = "A project of your own:\n\n  cqrs new shop"
    next_text = f"To look around{_about_kafka(demo_cli.settings)}"
    cli.print_result(
        {
            **demo_document(performance),
            "order": _order(performance),
            "read_model": performance.orders.rows if performance.orders else None,
            "root": root,
            "seconds": seconds,
            "next": steps,
        },
        "\n".join(
            [
                f"That took {seconds:g} s. {next_text}:\n",
                *(f"  {step}" for step in steps),
                "",
                new_project_text,
            ]
        ),
    )
    if performance.surprises:
        raise CqrsError("; ".join(performance.surprises), f"this should not be: look into {root}")


def _perform(cli: Cli) -> "Performance":
    """Act by act. Each is shown to people when it is over; programs get one document at the end."""
    import secrets

    from cqrs_cli.demo import project
    from cqrs_cli.demo.checkout import CheckoutPlay
    from cqrs_cli.demo.play import Performance, Play
    from cqrs_cli.demo.read_model import fill_read_model
    from cqrs_cli.demo.warm import warm_session
    from cqrs_cli.following.processes.load import PROCESSES
    from cqrs_cli.jobs.engine.session import project_session

    show = cli.stdout.print if cli.output == "text" else _hide
    name = secrets.token_hex(3)
    with ExitStack() as spark, ThreadPoolExecutor(2) as pool:
        session = project_session(cli.settings, "demo", "", packages=[PROCESSES])
        starting = pool.submit(warm_session, spark, session)  # beside the broker: each takes seconds
        if not cli.settings.bootstrap_server:
            cli.broker(brief=True)
        connection = cli.connection()
        play, checkout = Play(cli.settings, connection, name), CheckoutPlay(cli.settings, connection, name)
        with cli.show_spinner("creating topics, sending commands"):
            making = pool.submit(checkout.make_topics)
            play.send()
            making.result()
        with cli.show_spinner("starting Spark"):
            context = starting.result()
        show_story, timeout, filling = _run(
            cli,
            show,
            play,
            checkout,
            context,
            lambda: pool.submit(fill_read_model, cli.settings, connection, checkout.order),
        )
        with cli.show_spinner("folding all events again"):
            live, replayed = play.live(), play.replay(context)
        show(comparison_text(live, replayed))
        with cli.show_spinner("filling a table from the events"):
            orders = filling.result()
    code = f"projections/{project.PROJECTION}.py"
    show(f"The order as a row of a database; its projection is {code}:\n")
    show(table(orders.rows, read_model_columns(orders.rows)) if orders else _MISSING)
    show("")
    return Performance(
        show_story.decided, show_story.outcomes, show_story.accounts, live, replayed, timeout, orders
    )


def _run(
    cli: Cli,
    show: Callable[[Any], None],
    play: "Play",
    checkout: "CheckoutPlay",
    context: "SparkContext",
    fill: "Callable[[], Future[ReadModel | None]]",
) -> "tuple[StoryTold, Timeout, Future[ReadModel | None]]":
    """The acts of one run: the story is shown while the order waits for its payment. The table is filled, and the
    order's own story shown, while the run ends.
    """
    from cqrs_cli.cli.render.queries.trace import trace_text
    from cqrs_cli.demo.project import ORDER_PATIENCE, PROCESS
    from cqrs_cli.following.processes.load import PROCESSES

    timeouts: list[tuple[Timeout, Future[ReadModel | None]]] = []
    with ExitStack() as spinner:
        spinner.enter_context(cli.show_spinner("deciding"))

        def show_story(story: "StoryTold") -> None:
            spinner.close()
            show(f"{len(story.outcomes)} records were sent to {play.topics.commands}. What became of them:\n")
            show(table(enumerate(story.outcomes, 1), OUTCOMES))
            show("\nThe accounts, folded from their events:\n")
            show(table(story.accounts.items(), ACCOUNTS))
            spinner.enter_context(cli.show_spinner(f"waiting for a payment, {ORDER_PATIENCE} s"))

        def show_timeout() -> None:
            spinner.close()
            filling = fill()
            timeouts.append((checkout.timeout(), filling))
            show(
                f"An order that nobody pays; its process, {PROCESSES}/{PROCESS}.py, gives it {ORDER_PATIENCE} s:\n"
            )
            show(trace_text(timeouts[0][0].lineage))
            spinner.enter_context(cli.show_spinner("ending the run"))

        story = play.run(context, checkout, show_story, show_timeout)
    return story, *timeouts[0]


def _order(performance: "Performance") -> dict[str, Any]:
    """The last act, for programs."""
    from cqrs_cli.cli.render.queries.trace import command_document
    from cqrs_cli.demo.project import ORDER_PATIENCE

    order, found = performance.timeout
    return {
        "id": order,
        "patience_seconds": ORDER_PATIENCE,
        "commands": [command_document(node) for node in found.roots],
    }


def _hide(_: object) -> None:
    """Show nothing now: programs get one document at the end."""


def _about_kafka(settings: "Settings") -> str:
    """A remark that the broker is stopped which the next steps need; empty if it runs."""
    from cqrs_cli.kafka.embedded import broker

    if settings.bootstrap_server or broker.broker_status(settings.root) is not None:
        return ""
    return " (Kafka is stopped: the next command starts it)"


def _next(settings: "Settings", account: str, order: str) -> list[str]:
    """The commands to type next, in the user's present folder."""
    environment = os.path.relpath(sys.prefix)
    environment = sys.prefix if environment.startswith("..") else environment
    return [
        *([] if shutil.which("cqrs") else [f". {shlex.quote(environment)}/bin/activate"]),
        f"cd {shlex.quote(os.path.relpath(settings.root))}",
        f"cqrs show bank_account {account} --history",
        "cqrs tail bank_account outcomes",
        f"cqrs send bank_account {account} Withdraw amount=10 --expect 4",
        "cqrs run --once",
        f"cqrs trace {order}",
        *(["cqrs project recent_orders --once"] if find_spec("sqlalchemy") else []),
        *([] if settings.bootstrap_server else ["cqrs kafka stop"]),
    ]
