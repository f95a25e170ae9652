"""Helm for tests: the machine's program, or the program on PyPI."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import ROOT

CHART = ROOT / "deploy/helm/cqrs"

#: The Kubernetes version for which Helm renders. By default it would be the version of Helm's own release.
_KUBERNETES = ("--kube-version", "1.35.0")


def find_helm() -> Path:
    """Return the helm program, or skip the test. PyPI has helm only for the most common platforms."""
    folder = Path(sys.executable).parent
    if path := shutil.which("helm") or shutil.which("helm", path=str(folder)):
        return Path(path)
    pytest.skip("helm is not installed")


def run_helm(helm: Path, verb: str, values: dict[str, Any]) -> "subprocess.CompletedProcess[str]":
    """Run `helm lint` or `helm template` on the chart with these values."""
    arguments = [verb, "shop"] if verb == "template" else [verb]
    return subprocess.run(
        [str(helm), *arguments, str(CHART), *_KUBERNETES, "--values", "-"],
        input=yaml.safe_dump(values),
        capture_output=True,
        text=True,
    )


def render_manifests(helm: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the manifests, and the manifests of the pods that Spark creates."""
    result = run_helm(helm, "template", values)
    if result.returncode:
        pytest.fail(result.stderr, pytrace=False)
    documents = [document for document in yaml.safe_load_all(result.stdout) if document]
    templates = [
        document["data"]["pod.yaml"] for document in documents if "pod.yaml" in document.get("data", {})
    ]
    pods = [yaml.safe_load(text) for text in templates]
    for pod in pods:
        pod["metadata"]["name"] = "executor"
    return [*documents, *pods]
