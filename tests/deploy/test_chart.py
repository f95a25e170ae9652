"""The Helm chart: its manifests are valid on three Kubernetes versions, and inconsistent values are errors."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from cqrs_cli.jobs.engine.session import DEFAULT_PROPERTIES
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.settings.settings import Settings
from cqrs_cli.telemetry.listener import REPORTS_PORT
from tests.support import ROOT
from tests.support.helm import CHART, find_helm, render_manifests, run_helm

pytestmark = pytest.mark.slow

KAFKA = {"bootstrapServers": "kafka-1:9092,kafka-2:9092"}
MINIMAL: dict[str, Any] = {"kafka": KAFKA}
RUN_NAME = "shop-cqrs-run"
PASSWORD = {"name": "db", "key": "password"}

#: Values with all compatible options, and values for executors in separate pods.
COMPLETE: dict[str, Any] = {
    "image": {"repository": "shop", "tag": "7", "pullSecrets": [{"name": "registry"}]},
    "kafka": KAFKA | {"clientProperties": "security.protocol=SSL\n"},
    "settings": {
        "partitions": 12,
        "checkpoint_location": "s3://shop/checkpoints",
        "keyring": "env:SHOP_KEYS",
    },
    "env": [{"name": "AWS_REGION", "value": "eu-central-1"}],
    "run": {
        "processes": False,
        "shards": {"size": "20Gi", "storageClassName": "fast"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "batch", "operator": "Exists"}],
    },
    "gateway": {
        "enabled": True,
        "tokenSecret": "token",
        "hosts": ["shop.example"],
        "readOnly": True,
    },
    "projections": [
        {"name": "recent_orders", "to": "postgresql://shop@db/shop", "passwordSecret": PASSWORD},
        {"name": "all_events", "to": "mariadb://shop@db/shop", "passwordSecret": PASSWORD},
    ],
    "processes": ["checkout"],
    "networkPolicy": {"enabled": True},
    "monitoring": {"serviceMonitor": True, "prometheusRule": True, "labels": {"release": "prometheus"}},
}
EXECUTORS: dict[str, Any] = {
    "kafka": KAFKA | {"existingSecret": "client"},
    "settings": {"checkpoint_location": "s3://shop/checkpoints"},
    "run": {"spark": {"master": "k8s://https://kubernetes.default.svc", "executors": 3}},
    "networkPolicy": {"enabled": True},
}

#: Inconsistent values, by a phrase of the error.
INCONSISTENT: dict[str, dict[str, Any]] = {
    "name the brokers": {"kafka": {}},
    "give one of them": {"kafka": KAFKA | {"clientProperties": "a=b", "existingSecret": "c"}},
    "keeps no shards": MINIMAL | {"settings": {"store": "memory"}, "run": {"shards": {"size": "1Gi"}}},
    "keeps none": MINIMAL | {"settings": {"store": "memory", "checkpoint_location": "s3://a/b"}},
    "say its run.shards.size": MINIMAL | {"run": {"shards": {"storageClassName": "fast"}}},
    "set it to k8s://": MINIMAL | {"run": {"spark": {"executors": 2}}},
    "nobody would decide": MINIMAL | {"run": {"spark": {"master": "k8s://https://a"}}},
    "use settings.checkpoint_location": MINIMAL
    | {"run": {"spark": {"master": "k8s://https://a", "executors": 1}, "shards": {"size": "1Gi"}}},
    "set run.processes=false": MINIMAL | {"processes": ["checkout"]},
    "needs a token": MINIMAL | {"gateway": {"enabled": True}},
    "name a database server": MINIMAL | {"projections": [{"name": "a", "to": "sqlite:///a.db"}]},
    "sharts": MINIMAL | {"run": {"sharts": {"size": "1Gi"}}},
    "dedup_windows": MINIMAL | {"settings": {"dedup_windows": "1h"}},
    "replicas": MINIMAL | {"run": {"replicas": 0}},
}


@pytest.fixture(scope="module")
def helm() -> Path:
    return find_helm()


def pods(manifests: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the specs of all pods."""
    for manifest in manifests:
        if manifest["kind"] == "Pod":
            yield manifest["spec"]
        elif "template" in manifest.get("spec", {}):
            yield manifest["spec"]["template"]["spec"]


def manifest_of(manifests: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """Return the only manifest with this kind and name."""
    (manifest,) = [
        manifest for manifest in manifests if (manifest["kind"], manifest["metadata"]["name"]) == (kind, name)
    ]
    return manifest


@pytest.mark.parametrize("values", [MINIMAL, COMPLETE, EXECUTORS], ids=["minimal", "complete", "executors"])
def test_manifests_are_valid(helm: Path, values: dict[str, Any]) -> None:
    """The schemas of three Kubernetes versions are used. They do not contain Prometheus' own kinds."""
    lint = run_helm(helm, "lint", values)
    assert lint.returncode == 0, lint.stdout
    for manifest in render_manifests(helm, values):
        if not manifest["apiVersion"].startswith("monitoring.coreos.com/"):
            for version in ("1.33", "1.35", "1.37"):
                kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("values", [COMPLETE, EXECUTORS], ids=["complete", "executors"])
def test_pods_have_no_privileges(helm: Path, values: dict[str, Any]) -> None:
    for pod in pods(render_manifests(helm, values)):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["terminationGracePeriodSeconds"] == 60
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        claim_names = {"shards"} if "shards" in mounted else set()
        assert mounted == {volume["name"] for volume in pod["volumes"]} | claim_names


@pytest.mark.parametrize("sentence", INCONSISTENT)
def test_inconsistent_values_are_errors(helm: Path, sentence: str) -> None:
    process = run_helm(helm, "template", INCONSISTENT[sentence])
    assert process.returncode != 0
    assert sentence in process.stderr


def test_updates_wait_for_the_standby(helm: Path) -> None:
    run = manifest_of(render_manifests(helm, MINIMAL), "StatefulSet", RUN_NAME)["spec"]
    (container,) = run["template"]["spec"]["containers"]
    assert run["replicas"] == 2 and run["updateStrategy"] == {"type": "RollingUpdate"}
    assert "--standby" in container["args"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz?standby"


def test_executors_reach_their_driver(helm: Path) -> None:
    """The driver's name comes from the headless Service, its ports are fixed, and executors follow the pod template."""
    manifests = render_manifests(helm, EXECUTORS)
    service, run = (
        manifest_of(manifests, "Service", RUN_NAME),
        manifest_of(manifests, "StatefulSet", RUN_NAME)["spec"],
    )
    (container,) = run["template"]["spec"]["containers"]
    conf = dict(
        argument.removeprefix("--conf=").split("=", 1)
        for argument in container["args"]
        if "--conf=" in argument
    )
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True
    assert (
        run["serviceName"] == RUN_NAME and conf["spark.driver.host"] == f"$(POD_NAME).{RUN_NAME}.default.svc"
    )
    assert {"spark.driver.port", "spark.driver.blockManager.port"} < conf.keys()
    assert conf["spark.executor.instances"] == "3"
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "executor"]
    template, pod = (
        conf["spark.kubernetes.executor.podTemplateFile"],
        manifest_of(manifests, "Pod", "executor")["spec"],
    )
    assert template == f"{mount['mountPath']}/pod.yaml"
    assert conf["spark.kubernetes.executor.podTemplateContainerName"] == pod["containers"][0]["name"]


def test_executors_have_time_to_drain(helm: Path) -> None:
    """Spark overwrites the period of the pod template, by default with half of it."""
    manifests = render_manifests(helm, EXECUTORS)
    (container,) = manifest_of(manifests, "StatefulSet", RUN_NAME)["spec"]["template"]["spec"]["containers"]
    period = manifest_of(manifests, "Pod", "executor")["spec"]["terminationGracePeriodSeconds"]
    assert f"--conf=spark.kubernetes.executor.terminationGracePeriodSeconds={period}s" in container["args"]
    assert period > Timing().drain_timeout + Timing().slot_check_interval
    assert (
        DEFAULT_PROPERTIES["spark.decommission.enabled"] == "true"
    )  # then Spark adds the hook that drains its pods


def test_only_drivers_may_create_pods(helm: Path) -> None:
    """Without executors in pods, the driver may not create pods either."""
    manifests = render_manifests(helm, EXECUTORS)
    (rule,) = manifest_of(manifests, "Role", RUN_NAME)["rules"]
    assert "pods" in rule["resources"] and "create" in rule["verbs"]
    binding = manifest_of(manifests, "RoleBinding", RUN_NAME)
    (account,), run = (
        binding["subjects"],
        manifest_of(manifests, "StatefulSet", RUN_NAME)["spec"]["template"]["spec"],
    )
    assert account["name"] == run["serviceAccountName"] and binding["roleRef"]["name"] == RUN_NAME
    assert [pod["automountServiceAccountToken"] for pod in pods(manifests)].count(True) == 1
    assert run["automountServiceAccountToken"] is True
    without_executors = render_manifests(helm, COMPLETE)
    assert not {"Role", "RoleBinding"} & {manifest["kind"] for manifest in without_executors}
    assert not any(pod["automountServiceAccountToken"] for pod in pods(without_executors))


def test_network_policy_allows_executors(helm: Path) -> None:
    """Driver and executors may use Spark's ports, and executors may send reports to the driver by UDP."""
    manifests = render_manifests(helm, EXECUTORS)
    policy = manifest_of(manifests, "NetworkPolicy", "shop-cqrs")["spec"]
    (container,) = manifest_of(manifests, "StatefulSet", RUN_NAME)["spec"]["template"]["spec"]["containers"]
    conf = dict(
        argument.removeprefix("--conf=").split("=", 1)
        for argument in container["args"]
        if "--conf=" in argument
    )
    (rule,) = [rule for rule in policy["ingress"] if rule["from"] == [{"podSelector": policy["podSelector"]}]]
    allowed_ports = [(port["protocol"], str(port["port"])) for port in rule["ports"]]
    assert allowed_ports == [
        ("TCP", conf["spark.driver.port"]),
        ("TCP", conf["spark.driver.blockManager.port"]),
        ("UDP", conf[REPORTS_PORT]),
    ]
    assert conf["spark.blockManager.port"] == conf["spark.driver.blockManager.port"]  # the executors' own
    executor = manifest_of(manifests, "Pod", "executor")["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= executor.items()


def test_alerts_are_those_of_compose(helm: Path) -> None:
    rules = manifest_of(render_manifests(helm, COMPLETE), "PrometheusRule", "shop-cqrs")["spec"]
    assert rules == yaml.safe_load((ROOT / "compose/alerts.yaml").read_text())


def test_chart_sets_existing_settings() -> None:
    """The settings that the chart sets itself are excluded."""
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]["settings"]
    chart_settings = {"root", "bootstrap_server", "command_config", "master", "state_dir"}
    assert set(schema["propertyNames"]["enum"]) == set(Settings.model_fields) - chart_settings
