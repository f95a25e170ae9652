"""Debezium's outbox event router with Kafka Connect's transforms and converters, without a database and a worker."""

import subprocess
from base64 import b64decode
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cqrs_cli.core.messages.record import Record
from tests.support.java import find_compiler

_DEBEZIUM, _KAFKA = "3.2.0.Final", "4.1.0"

#: Debezium's dependencies are databases and registries, some of them not on Maven Central, so they are excluded.
_WITHOUT_DEPENDENCIES = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)

_LIBRARIES = [
    *(
        ("io.debezium", f"debezium-{name}", _DEBEZIUM, _WITHOUT_DEPENDENCIES)
        for name in ("api", "common", "core")
    ),
    *(("org.apache.kafka", f"connect-{name}", _KAFKA, "") for name in ("json", "transforms")),
    ("org.slf4j", "slf4j-nop", "1.7.36", ""),
]


@cache
def _classpath() -> str:
    """Return the class path with jars from Maven, or skip the test."""
    project_header = (
        "<modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>b</artifactId><version>1</version>"
    )
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>{exclusions}</dependency>"
        for group, name, version, exclusions in _LIBRARIES
    )
    with TemporaryDirectory() as folder:
        (Path(folder) / "pom.xml").write_text(
            f"<project>{project_header}<dependencies>{dependencies}</dependencies></project>"
        )
        resolve = ["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"]
        process = subprocess.run(resolve, cwd=folder, capture_output=True, text=True)
        if process.returncode != 0:
            pytest.skip(f"Maven cannot resolve Debezium: {process.stdout.strip()[-200:]}")
        return (Path(folder) / "classpath").read_text()


def route_row(settings: str, row: Mapping[str, str]) -> tuple[str, Record]:
    """Return the topic and the record that a connector with these settings creates from a row."""
    columns = [f"{name}={value}" for name, value in row.items()]
    command_line = [
        find_compiler(),
        "-cp",
        _classpath(),
        str(Path(__file__).with_name("Route.java")),
        settings,
        *columns,
    ]
    output = subprocess.check_output(command_line, text=True)
    parts = {name: b64decode(encoded) for name, encoded in (line.split() for line in output.splitlines())}
    headers: list[tuple[str, bytes | None]] = [
        (name.removeprefix("header."), text) for name, text in parts.items() if name.startswith("header.")
    ]
    return parts["topic"].decode(), Record(0, 1000, parts["key"], parts["value"], headers)
