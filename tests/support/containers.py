"""Containers for tests: the engine, images, free ports. Without them a test skips, and says why."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import docker
import pytest

from tests.support import ROOT
from tests.support.wheels import pack_installed

#: What the Dockerfile copies.
_COPIED = (
    *("Dockerfile", ".dockerignore", "LICENSE", "README.md", "constraints.txt", "pyproject.toml"),
    *("aggregates", "cqrs_cli", "deploy", "processes", "projections"),
)


def find_compose() -> None:
    """`docker compose` is here: what it says of a file needs no engine."""
    _ask(["docker", "compose", "version"])


def find_engine() -> docker.DockerClient:
    """Asked for by Docker's own program first: the client leaves its socket open where nobody answers."""
    _ask(["docker", "version"])
    find_compose()
    return docker.from_env(timeout=60)


def _ask(command: Sequence[str]) -> None:
    """Skip where the command fails."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (subprocess.CalledProcessError, OSError) as error:
        why = getattr(error, "stderr", "") or str(error)
        pytest.skip(f"{' '.join(command)}: {why.strip().splitlines()[-1]}")


def find_image(engine: docker.DockerClient, name: str) -> None:
    """It is here, or can be had."""
    try:
        engine.images.get(name)
    except docker.errors.ImageNotFound:
        try:
            engine.images.pull(name)
        except docker.errors.APIError as error:
            pytest.skip(f"the image {name} is neither here nor to be had: {error.explanation}")


def run(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """The output of a command on both streams; it must succeed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        pytest.fail(f"{' '.join(command)}: {done.stdout[-5000:]}", pytrace=False)
    return done.stdout


def build_image(engine: docker.DockerClient, folder: Path, tag: str) -> None:
    """The project's image, on PYTHON_IMAGE from wheels of what is installed here, or on the official one from PyPI."""
    base = os.environ.get("PYTHON_IMAGE", "python:3.13-slim")
    find_image(engine, base)
    for name in _COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    arguments = ["--build-arg", f"PYTHON={base}"]
    if "PYTHON_IMAGE" in os.environ:
        pack_installed(folder / "wheels", "cqrs-cli[gateway,projections]", "hatchling", "dumb-init")
        arguments += ["--build-arg", "PIP_NO_INDEX=1"]
    run(["docker", "build", *arguments, "--tag", tag, "."], folder)
