"""What docker/ says, as far as it can be checked without a container engine."""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from stream_can import kafka, serve
from stream_can.app.metrics import Metrics
from tests.programs import PATIENCE, program

ROOT = Path(__file__).resolve().parent.parent
DOCKER = ROOT / "docker"


def succeeds(*command: str, **options: Any) -> str:
    # A wheel is compiled from nothing, with tools that are fetched for it.
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE, **options)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


# -- the files -----------------------------------------------------------------------------------


@pytest.mark.fast
def test_the_dockerfile_has_no_lint(tmp_path: Path) -> None:
    lint = program("hadolint")
    assert succeeds(lint, str(DOCKER / "Dockerfile")) == ""
    wrong = tmp_path / "Dockerfile"
    wrong.write_text("FROM python\nRUN cd /tmp\n")
    assert subprocess.run([lint, str(wrong)], capture_output=True).returncode != 0


def compose(path: Path) -> dict[str, Any]:
    """The file as docker-compose understands it."""
    docker_compose = program("docker-compose")
    command = [docker_compose, "-f", str(path), "config"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.needs("docker-compose")
@pytest.mark.fast
def test_compose_accepts_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services = compose(DOCKER / "compose.yaml")["services"]
    correctors = [service for name, service in services.items() if name.startswith("corrector")]
    assert len(correctors) == 2
    assert {c["environment"]["STREAM_CAN_INSTANCE"] for c in correctors} == {"0", "1"}
    for service in services.values():  # what is mounted lies in the repository
        for volume in service.get("volumes", []):
            assert Path(volume.split(":")[0]).is_file(), volume
    monkeypatch.setenv("STREAM_CAN_TOKEN", "a-token-of-this-test")
    (over_http,) = compose(DOCKER / "serve.yaml")["services"].values()
    assert over_http["command"] == ["serve", "/etc/stream-can/app.toml"]
    wrong = tmp_path / "compose.yaml"
    wrong.write_text("services:\n  a: {image: x, depend_on: [b]}\n")
    with pytest.raises(AssertionError, match="depend_on"):
        compose(wrong)


@pytest.mark.needs("promtool", "docker-compose")
@pytest.mark.fast
def test_prometheus_accepts_its_files_and_the_targets_are_the_correctors() -> None:
    promtool = program("promtool")
    groups = yaml.safe_load((DOCKER / "alerts.yml").read_text())["groups"]
    rules = sum(len(group["rules"]) for group in groups)
    checked = succeeds(promtool, "check", "config", str(DOCKER / "prometheus.yml"))
    assert f"{rules} rules found" in checked
    jobs = yaml.safe_load((DOCKER / "prometheus.yml").read_text())["scrape_configs"]
    services = compose(DOCKER / "compose.yaml")["services"]
    targets = [one for job in jobs for one in job["static_configs"][0]["targets"]]
    roles = [name for name in services if name.startswith("corrector") or name == "learner"]
    assert targets == [*(f"{name}:9400" for name in roles), "server:8000"]
    token = jobs[1]["authorization"]["credentials"]
    assert services["server"]["environment"]["STREAM_CAN_TOKEN"] == token


# -- alerts --------------------------------------------------------------------------------------


def test_every_metric_that_is_named_exists() -> None:
    there = {sample.name for family in Metrics().registry.collect() for sample in family.samples}
    there |= {
        f"{family.name}{end}" for family in Metrics().registry.collect() for end in ("", "_total")
    }
    recorded = r"stream_can:\w+:\w+"
    for path in (DOCKER / "alerts.yml", ROOT / "docs" / "operations.md"):
        text = re.sub(recorded, "", path.read_text())
        named = set(re.findall(r"\bstream_can_[a-z_0-9]+\b", text))
        assert named, path
        unknown = {name for name in named if not name.endswith("_") and name not in there}
        assert unknown == set(), path


HEALTHY = {
    "up": "1x500",
    'build_info{version="1"}': "1x500",
    "partitions": "4x500",
    'lag_records{source="input"}': "5x500",
    'lag_records{source="sent"}': "5x500",
    'predictions_total{result="corrected"}': "0+6000x500",
    'predictions_total{result="dead_letter"}': "0+6x500",
    'labels_total{result="matched"}': "0+5000x500",
    'labels_total{result="unmatched"}': "0+100x500",
    'labels_total{result="dead_letter"}': "0+5x500",
    'coverage{partition="0"}': "1x500",
    'silent_classes{partition="0"}': "0x500",
    'state_age_seconds{partition="0"}': "1x500",
    'foreign_records{partition="0"}': "3x500",
    'early_labels{partition="0"}': "3x500",
    "learning_failed": "0x500",
    "registry_away": "0x500",
    'worse{stage="before"}': "0x500",
    "handed_over_records": "0x500",
    'expected_accuracy{bound="value"}': "0.9x500",
    'expected_accuracy{bound="high"}': "0.95x500",
    "scored_total": "0+5000x500",
    'log_loss_total{stage="before"}': "0+5000x500",
    'log_loss_total{stage="after"}': "0+4800x500",
    'transactions_total{outcome="committed"}': "0+300x500",
    'transactions_total{outcome="aborted"}': "0+1x500",
}
TROUBLE = [
    ("StreamCanDown", {"up": "0x500"}),
    ("StreamCanNoPartition", {"partitions": "0x500"}),
    ("StreamCanStuck", {"corrected": "9x500", '"dead_letter"': "1x500"}),
    ("StreamCanFallsBehind", {'"input"': "5+500x500"}),
    ("StreamCanLearnerFallsBehind", {'"sent"': "5+50x500"}),
    ("StreamCanBacklogGrows", {"handed_over": "5+500x500"}),
    ("StreamCanDeadLetters", {'predictions_total{result="dead_letter"': "0+100x500"}),
    ("StreamCanDeadLetters", {'labels_total{result="dead_letter"': "0+100x500"}),
    ("StreamCanRegistryAway", {"registry_away": "1x500"}),
    ("StreamCanLabelsNotJoined", {'"unmatched"': "0+900x500"}),
    ("StreamCanLabelsGivenUp", {"early": "0+100x500"}),
    (
        "StreamCanNoLabels",
        {'"matched"': "5x500", '"unmatched"': "5x500", '"dead_letter"': "0+6x5 30x495"},
    ),
    ("StreamCanLearningStalls", {"state_age": "200x500"}),
    ("StreamCanCannotLearn", {"learning_failed": "1x500"}),
    ("StreamCanForeignRecords", {"foreign": "0+1x500"}),
    ("StreamCanLabelsOneSided", {"coverage": "0.8x500"}),
    ("StreamCanLabelsOneSided", {"silent": "2x500"}),
    ("StreamCanExpectedAccuracyFell", {'bound="high"': "0.85x500"}),
    ("StreamCanHarms", {'"after"': "0+5100x500"}),
    ("StreamCanClassifierWorse", {"worse": "1x500"}),
    ("StreamCanTransactionsFail", {'"aborted"': "0+50x500"}),
]
SLOW = {"StreamCanNoLabels", "StreamCanLabelsOneSided", "StreamCanHarms"}
"""They look hours back; for all others two hours are enough."""
PASSING = [  # what is no trouble yet
    {"coverage": "1x300 0.8x200"},
    {"silent": "0x300 2x200"},
]


@pytest.mark.needs("promtool")
@pytest.mark.fast
def test_each_alert_fires_in_its_trouble_and_none_in_health(tmp_path: Path) -> None:
    promtool = program("promtool")
    rules = yaml.safe_load((DOCKER / "alerts.yml").read_text())["groups"][1]["rules"]
    alerts = {rule["alert"]: rule["annotations"] for rule in rules}
    assert alerts.keys() == {alert for alert, _ in TROUBLE}

    def in_full(name: str) -> str:
        metric, _, labels = name.rstrip("}").partition("{")
        prefix = "" if metric == "up" else "stream_can_"
        ours = 'job="stream-can",instance="a"'
        return f"{prefix}{metric}{{{ours}{',' if labels else ''}{labels}}}"

    def case(firing: str | None, changed: dict[str, str]) -> dict[str, Any]:
        series = dict(HEALTHY)
        for part, values in changed.items():
            matching = [name for name in HEALTHY if part in name]
            assert matching
            series |= dict.fromkeys(matching, values)
        labels: dict[str, str] = {"job": "stream-can"}
        labels |= {"instance": "a"} if firing == "StreamCanDown" else {}
        said = {
            alert: [
                {
                    "exp_labels": labels,
                    "exp_annotations": {
                        "summary": text["summary"].replace("{{ $labels.instance }}", "a")
                    },
                }
            ]
            if alert == firing
            else []
            for alert, text in alerts.items()
        }
        return {
            "interval": "1m",
            "input_series": [
                {"series": in_full(name), "values": values} for name, values in series.items()
            ],
            "alert_rule_test": [
                {
                    "eval_time": "2h" if firing and firing not in SLOW else "8h",
                    "alertname": alert,
                    "exp_alerts": exp,
                }
                for alert, exp in said.items()
            ],
        }

    tests = [case(None, changed) for changed in ({}, *PASSING)]
    tests[0]["input_series"].append({"series": 'up{job="other"}', "values": "0x500"})
    tests += [case(alert, changed) for alert, changed in TROUBLE]
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(DOCKER / "alerts.yml")], "tests": tests}))
    succeeds(promtool, "test", "rules", str(path))


# -- the Dockerfile's commands, in virtual environments instead of images ------------------------


@pytest.mark.release
@pytest.mark.long
def test_the_dockerfile_run_by_hand(tmp_path: Path) -> None:
    """Every COPY and RUN but useradd, stage by stage, then the corrector's ENTRYPOINT.

    What stands in for an image is as cheap as the check allows: the wheel is compiled with the
    session's Cython and, unlike every other build here, not optimised; the corrector is installed
    where nothing else is; the demo's packages, which the session has, are resolved only.
    """
    image = tmp_path / "image"
    succeeds(sys.executable, "-m", "venv", "--without-pip", str(image))
    compilers = {"CC": "cc", "CXX": "c++"}
    for variable, name in compilers.items():
        compilers[variable] = str(tmp_path / name)
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {name} "$@" -O0\n')  # the last -O counts
        (tmp_path / name).chmod(0o755)
    pip = {
        # pip's way of saying: not isolated
        "build": {"PIP_NO_BUILD_ISOLATION": "false", **compilers},
        "run": {"PIP_PYTHON": str(image / "bin" / "python"), "PIP_NO_COMPILE": "true"},
        "demo": {"PIP_DRY_RUN": "true", "PIP_NO_INDEX": "true"},
    }
    folders: dict[str, Path] = {}
    entrypoints: dict[str, list[str]] = {}
    stage = ""
    for line in (DOCKER / "Dockerfile").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM" and " AS " in rest:
            base, stage = rest.split(" AS ")
            folder = folders[stage] = tmp_path / stage
            if base in folders:
                shutil.copytree(folders[base], folder)
            else:
                folder.mkdir()
        elif word == "COPY":
            *sources, target = rest.split()
            root = ROOT
            if sources[0].startswith("--from="):
                root = folders[sources.pop(0).removeprefix("--from=")]
            for source in sources:
                for found in root.glob(source.removeprefix("/src/")):
                    goal = folders[stage] / target
                    goal.parent.mkdir(parents=True, exist_ok=True)
                    if found.is_dir():
                        skip = shutil.ignore_patterns("__pycache__", "*.so", "*.c", "*.cpp")
                        shutil.copytree(found, goal, ignore=skip)
                    else:
                        shutil.copy(found, goal)
        elif word == "RUN" and not rest.startswith("useradd"):
            command = re.sub(r"^pip (\w+) --no-cache-dir", rf"{sys.executable} -m pip \1", rest)
            succeeds("sh", "-c", command, cwd=folders[stage], env={**os.environ, **pip[stage]})
        elif word == "ENTRYPOINT":
            entrypoints[stage] = yaml.safe_load(rest)
    assert entrypoints == {"run": ["stream-can"], "demo": ["python", "examples/kafka_producer.py"]}
    assert (folders["demo"] / "examples" / "kafka_producer.py").exists()
    program_ = str(image / "bin" / "stream-can")
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    assert "backfill" in succeeds(program_, "--help", cwd=tmp_path, env=bare)
    settings = str(ROOT / "examples" / "kafka_flights.toml")
    # Every import of a worker works: it gets as far as asking for brokers.
    refused = subprocess.run(
        [program_, "run", settings, "--bootstrap-servers", "127.0.0.1:1", "--connect-seconds", "0"],
        capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path, env=bare,
    )  # fmt: skip
    assert refused.returncode == 4, refused.stderr


# -- Kubernetes ----------------------------------------------------------------------------------


@pytest.mark.fast
def test_kubernetes_manifests_are_those_of_its_api() -> None:
    """By the schemas of a release of it; what selects pods finds them."""
    every = [*yaml.safe_load_all((DOCKER / "kubernetes.yaml").read_text())]
    for one in every:
        kubernetes_validate.validate(one, "1.37", strict=True)
    wrong = copy.deepcopy(every[2])
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)
    named = {(one["kind"], one["metadata"]["name"]): one for one in every}
    sets = [one for one in every if one["kind"] in ("StatefulSet", "Deployment")]
    pods = [one["spec"]["template"]["metadata"]["labels"] for one in sets]
    for kind, of in (("Service", "selector"), ("PodDisruptionBudget", "selector")):
        for (is_kind, name), one in named.items():
            if is_kind == kind:
                wanted = one["spec"][of]
                assert wanted.get("matchLabels", wanted) in pods, name
    settings = named["ConfigMap", "stream-can"]["data"]["app.toml"]
    loaded = {}
    for one in sets:
        (container,) = one["spec"]["template"]["spec"]["containers"]
        command, path = container["args"]
        assert Path(path).parent == Path(container["volumeMounts"][0]["mountPath"])
        env = {x["name"]: x.get("value", "a-token-of-this-test") for x in container["env"]}
        with tempfile.NamedTemporaryFile(suffix=".toml") as file:
            Path(file.name).write_text(settings)
            load = {"serve": serve.load}.get(command, kafka.load)
            loaded[command] = load(file.name, {}, env)
        port = container["ports"][0]["containerPort"]
        assert loaded[command].http_port == port
    assert loaded["run"].learn is False
    assert loaded["serve"].application.input == loaded["run"].input == "predictions"
