"""Helm for tests: the machine's, or one that Go builds from its module, once per user."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import ROOT

CHART = ROOT / "deploy/helm/cqrs"
MODULE = "helm.sh/helm/v3/cmd/helm@v3.22.0"

#: A Helm that Go builds does not know for which Kubernetes it is.
_KUBERNETES = ("--kube-version", "1.35.0")


def find_helm() -> Path:
    """Skips where neither Helm nor Go is there."""
    if found := shutil.which("helm"):
        return Path(found)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cqrs-tests"
    helm = cache / MODULE.rpartition("@")[2] / "helm"
    if not helm.exists():
        if shutil.which("go") is None:
            pytest.skip("neither helm nor go is there")
        environment = os.environ | {"GOBIN": str(helm.parent), "GOFLAGS": "-mod=mod"}
        built = subprocess.run(
            ["go", "install", "-ldflags=-s -w", MODULE], env=environment, capture_output=True, text=True
        )
        if built.returncode:
            pytest.skip(f"go cannot build helm: {built.stderr.strip().splitlines()[-1]}")
    return helm


def call(helm: Path, verb: str, values: dict[str, Any]) -> "subprocess.CompletedProcess[str]":
    """`helm lint` or `helm template` of the chart with these values."""
    named = [verb, "shop"] if verb == "template" else [verb]
    return subprocess.run(
        [str(helm), *named, str(CHART), *_KUBERNETES, "--values", "-"],
        input=yaml.safe_dump(values),
        capture_output=True,
        text=True,
    )


def rendered(helm: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    """The manifests, and those of the pods that Spark is to make."""
    done = call(helm, "template", values)
    if done.returncode:
        pytest.fail(done.stderr, pytrace=False)
    found = [one for one in yaml.safe_load_all(done.stdout) if one]
    templates = [one["data"]["pod.yaml"] for one in found if "pod.yaml" in one.get("data", {})]
    return [*found, *({"metadata": {"name": "executor"}} | yaml.safe_load(text) for text in templates)]
