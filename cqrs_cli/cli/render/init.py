"""The topics that `cqrs init` made or checked: as JSON, and as a table for people."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.kafka.admin.topics import Made


def topics_document(made: "list[Made]", dry_run: bool) -> dict[str, Any]:
    return {"dry_run": dry_run, "topics": [topic._asdict() for topic in made]}


def topics_table(made: "list[Made]", dry_run: bool) -> "RenderableType":
    from rich.table import Table

    said = {"missing": "would be created", "unknown": "would be created if it is missing"}
    table = Table("topic", "partitions", "dry run" if dry_run else "result", box=None, padding=(0, 2, 0, 0))
    for topic in made:
        table.add_row(topic.topic, str(topic.partitions), said.get(topic.result, topic.result))
    return table
