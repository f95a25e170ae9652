"""What the commands that run on Spark have in common."""

import re
from collections.abc import Iterable
from typing import Annotated

import typer

from cqrs_cli.errors import UsageError

Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Where Spark runs.", show_default="local[*]")
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="K=V", help="A Spark property; repeatable.")
]

#: What Spark itself hides: the default of its `spark.redaction.regex`.
_SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)


def properties(conf: Iterable[str]) -> dict[str, str]:
    """`--conf K=V` as Spark properties; raises `UsageError` for one that has no `=`, and for a secret."""
    pairs = [text.partition("=") for text in conf]
    for name, equals, _ in pairs:
        if _SECRET.search(name):
            raise UsageError(
                f"--conf {name}: a secret is not accepted on the command line",
                "put it into the spark-defaults.conf of the folder that SPARK_CONF_DIR names",
            )
        if not (name and equals):
            raise UsageError(f"--conf {name}: no value", "write --conf KEY=VALUE")
    return {name: value for name, _, value in pairs}
