"""The container's program for each kind of arguments. `java` and `cqrs` are fakes that print their calls."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

#: The environment that Spark gives to an executor's pod.
POD_ENVIRONMENT = {
    "SPARK_DRIVER_URL": "spark://driver:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_CONF_DIR": "/conf",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1g",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.1",
    "SPARK_EXECUTOR_POD_NAME": "shop-exec-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
    "SPARK_JAVA_OPT_1": "-Dtext=two words",
}


def entrypoint_command(folder: Path, *arguments: str, **variables: str) -> list[str]:
    """Return the program that the container becomes, and its arguments."""
    for name in ("java", "cqrs"):
        program = folder / name
        program.write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@"\n')
        program.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "SPARK_HOME": "/spark", **variables}
    program = ROOT / "deploy/image/entrypoint"
    return subprocess.check_output([program, *arguments], env=environment, text=True).splitlines()


@pytest.mark.parametrize("arguments", [["run", "--once"], ["cqrs", "run", "--once"]])
def test_commands_are_those_of_cqrs(tmp_path: Path, arguments: list[str]) -> None:
    assert entrypoint_command(tmp_path, *arguments) == ["cqrs", "run", "--once"]


def test_executors_are_those_of_spark(tmp_path: Path) -> None:
    java, *arguments = entrypoint_command(tmp_path, "executor", **POD_ENVIRONMENT)
    assert java == "java" and arguments[:4] == [
        *("-Xms1g", "-Xmx1g", "-Dspark.driver.port=7078", "-Dtext=two words")
    ]
    assert arguments[5] == f"/conf:/spark/jars/*:{Path.cwd()}"
    assert arguments[6] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    assert arguments[7:9] == ["--driver-url", "spark://driver:7078"]
    assert arguments[-2:] == ["--podName", "shop-exec-1"]


@pytest.mark.parametrize(("part", "main"), [("master", "master.Master"), ("worker", "worker.Worker")])
def test_clusters_are_started(tmp_path: Path, part: str, main: str) -> None:
    *_, main_class, option, value = entrypoint_command(tmp_path, part, "--host", "here")
    assert (main_class, option, value) == (f"org.apache.spark.deploy.{main}", "--host", "here")


@pytest.mark.program
def test_pods_drain_before_they_end() -> None:
    """The hook signals the container's first process, which passes the signal to its child, and waits for the end."""
    program = "import signal as s; s.pthread_sigmask(s.SIG_BLOCK, [s.SIGPWR]); print(flush=True); s.sigwait([s.SIGPWR])"
    container_command = [
        str(Path(sys.executable).with_name("dumb-init")),
        "--single-child",
        "--",
        sys.executable,
        "-c",
        program,
    ]
    with subprocess.Popen(container_command, stdout=subprocess.PIPE) as container:
        assert container.stdout is not None and container.stdout.readline() == b"\n"
        with subprocess.Popen([ROOT / "deploy/image/decom.sh", str(container.pid)]) as hook:
            assert container.wait(30) == 0
            assert hook.poll() is None
            hook.kill()
