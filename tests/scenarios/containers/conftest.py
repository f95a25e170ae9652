"""The project's image, built once, and Kafka's jars for the demo in the image."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest

from cqrs_cli.kafka.embedded import jars
from tests.scenarios.containers.system import System
from tests.support.containers import build_image, find_engine


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    with closing(find_engine()) as client:
        yield client


@pytest.fixture(scope="session")
def image(engine: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The image's name. CQRS_IMAGE names an image that exists already."""
    if image := os.environ.get("CQRS_IMAGE"):
        yield image
        return
    context, tag = tmp_path_factory.mktemp("image"), f"cqrs-test:{uuid.uuid4().hex[:8]}"
    build_image(engine, context, tag)
    shutil.rmtree(context)
    yield tag
    engine.images.remove(tag, force=True)


@pytest.fixture(scope="session")
def kafka_jars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for `CQRS_CACHE_DIR` that every user may read: a container may have no network to download the jars."""
    jar_paths = jars.ensure_jars(print)
    cache = tmp_path_factory.mktemp("jars")
    shutil.copytree(jar_paths, cache / jar_paths.name)
    for path in (*cache.parents[:2], cache, *cache.rglob("*")):
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    return cache


@pytest.fixture(scope="module")
def system(
    engine: docker.DockerClient, image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    system = System(engine, image, tmp_path_factory.mktemp("system"))
    try:
        system.compose("up", "--detach", "--wait", "--quiet-pull")
        yield system
    finally:
        system.compose("--profile", "*", "down", "--volumes", "--timeout", "1")  # tests start more
