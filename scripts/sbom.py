"""Writes the bill of materials of an installation as CycloneDX: Python packages, and jars of the embedded Kafka.

python -m scripts.sbom dist/cqrs_cli-0.9.0-py3-none-any.whl dist/cqrs_cli-0.9.0.cdx.json
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cqrs_cli.kafka.embedded.release import EMBEDDED, Jar

ROOT = Path(__file__).resolve().parent.parent

#: The extras that an image installs. `java` is not among them: Java is part of the base image, or of the machine.
EXTRAS = "gateway,personal,projections"


def write_sbom(wheel: Path, target: Path) -> None:
    """Install the wheel with its extras at the versions of constraints.txt, and write the list of packages."""
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "venv/bin/python"
        bin_folder = Path(sys.executable).parent
        _run(bin_folder / "uv", "venv", "--quiet", "--python", sys.executable, python.parent.parent)
        _run(
            *(bin_folder / "uv", "pip", "install", "--quiet", "--python", python),
            *("--constraint", ROOT / "constraints.txt", f"{wheel}[{EXTRAS}]"),
        )
        options = ("--output-reproducible", "--mc-type", "application")
        document = json.loads(_run(bin_folder / "cyclonedx-py", "environment", *options, python))
    document = add_jars(without_local_paths(document), EMBEDDED.jars)
    target.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def without_local_paths(document: dict[str, Any]) -> dict[str, Any]:
    """Return the CycloneDX document without references to files of this machine, such as the installed wheel."""
    components = [
        component
        | {
            "externalReferences": [
                reference
                for reference in component.get("externalReferences", ())
                if not reference["url"].startswith("file:")
            ]
        }
        for component in document.get("components", ())
    ]
    return document | {"components": components}


def add_jars(document: dict[str, Any], jars: Iterable[Jar]) -> dict[str, Any]:
    """Return the CycloneDX document with a component for each jar, which `cqrs` downloads and checks by its SHA-256."""
    components = [*document.get("components", ()), *map(_jar_component, jars)]
    return document | {"components": components}


def _jar_component(jar: Jar) -> dict[str, Any]:
    group, artifact, version = jar.coordinates.split(":")
    package_url = f"pkg:maven/{group}/{artifact}@{version}"
    return {
        "bom-ref": package_url,
        "type": "library",
        "group": group,
        "name": artifact,
        "version": version,
        "purl": package_url,
        "hashes": [{"alg": "SHA-256", "content": jar.sha256}],
    }


def _run(*arguments: object) -> str:
    """Run a program and return its output; a failure ends this program."""
    return subprocess.run([*map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    write_sbom(Path(sys.argv[1]), Path(sys.argv[2]))
