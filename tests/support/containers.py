"""Containers for tests: the engine, images, free ports.

A test without an engine or image is skipped, with the reason.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import docker
import pytest

from tests.support import ROOT
from tests.support.wheels import pack_installed

#: The files that the Dockerfile copies.
_DOCKERFILE_INPUTS = (
    *("Dockerfile", ".dockerignore", "LICENSE", "README.md", "constraints.txt", "pyproject.toml"),
    *("aggregates", "cqrs_cli", "deploy", "processes", "projections"),
)


def require_compose() -> None:
    """Skip the test if `docker compose` is missing.

    No engine has to run: this suffices for tests that only check a compose file.
    """
    _require(["docker", "compose", "version"])


def find_engine() -> docker.DockerClient:
    """Connect to the container engine, or skip the test.

    Docker's own program is tried first, because the client library leaves its socket open if no engine answers.
    """
    _require(["docker", "version"])
    require_compose()
    return docker.from_env(timeout=60)


def _require(command: Sequence[str]) -> None:
    """Skip the test if the command fails."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (subprocess.CalledProcessError, OSError) as error:
        error_text = getattr(error, "stderr", "") or str(error)
        pytest.skip(f"{' '.join(command)}: {error_text.strip().splitlines()[-1]}")


def require_image(engine: docker.DockerClient, name: str) -> None:
    """Skip the test unless the image exists or can be pulled."""
    try:
        engine.images.get(name)
    except docker.errors.ImageNotFound:
        try:
            engine.images.pull(name)
        except docker.errors.APIError as error:
            pytest.skip(f"the image {name} is not on this machine and cannot be pulled: {error.explanation}")


def run_command(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run a command, which must succeed, and return its output on both streams."""
    process = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if process.returncode:
        pytest.fail(f"{' '.join(command)}: {process.stdout[-5000:]}", pytrace=False)
    return process.stdout


def build_image(engine: docker.DockerClient, folder: Path, tag: str) -> None:
    """Build the project's image.

    If the variable PYTHON_IMAGE names another base image, pip installs offline, from wheels of the packages that are
    installed here. Otherwise pip installs from PyPI.
    """
    base = os.environ.get("PYTHON_IMAGE", "python:3.13-slim")
    require_image(engine, base)
    for name in _DOCKERFILE_INPUTS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    arguments = ["--build-arg", f"PYTHON={base}"]
    if "PYTHON_IMAGE" in os.environ:
        pack_installed(folder / "wheels", "cqrs-cli[gateway,personal,projections]", "hatchling", "dumb-init")
        arguments += ["--build-arg", "PIP_NO_INDEX=1"]
    run_command(["docker", "build", *arguments, "--tag", tag, "."], folder)
