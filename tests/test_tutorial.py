"""docs/tutorial.md is executed from its first line to its last: files are written, and commands are run."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.kafka.embedded import broker as embedded
from tests.support.absent_broker import free_port
from tests.support.page import Page, stable_words, typed_commands

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

#: A block of code or of commands, in the page's order.
STEP = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Reader:
    """Follows the page's instructions in a folder that is empty at first."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.background_processes: list[subprocess.Popen[bytes]] = []
        programs = folder / "bin"
        programs.mkdir()
        (programs / "cqrs").write_text(f'#!/bin/sh\nexec {sys.executable} -m cqrs_cli "$@"\n')
        (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        for program in programs.iterdir():
            program.chmod(0o755)
        self.environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}

    def write(self, code: str) -> None:
        """Write a block of code to the file that its first line names."""
        name, _, text = code.partition("\n")
        (self.folder / name.removeprefix("# ")).write_text(text)

    def run_line(self, line: str, expected: str) -> None:
        """Run a line, which must succeed and print the shown output, if any."""
        line = line.replace("8080", str(self.port))
        if line.startswith("cd "):
            self.folder /= line.removeprefix("cd ")
        elif line.endswith(" &"):
            command = ["sh", "-c", f"exec {line.removesuffix(' &')}"]
            self.background_processes.append(subprocess.Popen(command, cwd=self.folder, env=self.environment))
        else:
            process = subprocess.run(
                line,
                shell=True,
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=300,
            )
            print("$", line, process.stdout, process.stderr, sep="\n")
            assert process.returncode == 0
            assert not expected or stable_words(process.stdout) == stable_words(expected)

    def stop_all(self) -> None:
        """Stop all processes and the broker."""
        for process in self.background_processes:
            process.send_signal(signal.SIGTERM)
            process.wait(120)
        embedded.stop_broker(self.folder)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A reader with an empty folder."""
    reader = Reader(tmp_path)
    try:
        yield reader
    finally:
        reader.stop_all()


def test_every_line_works(reader: Reader) -> None:
    for language, text in STEP.findall(Page("docs/tutorial.md").text):
        if language == "python":
            reader.write(text)
        else:
            for line, expected in typed_commands(text):
                reader.run_line(line, expected)
