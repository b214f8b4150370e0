"""What is in deploy/: every file is read, and what it says of Sexton is so.

Nothing of it can be run here; what can be checked without a cluster is.
"""

import configparser
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from sexton.observe.catalogue import METRICS, exported
from sexton.settings import Settings, host_and_port

from ..docs.test_examples import demand_command

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())
DASHBOARD = json.loads((DEPLOY / "grafana" / "sexton.json").read_text())
PROMTOOL = shutil.which("promtool")
OBSERVE = 9464
# The collector of the process itself has these, under our prefix.
OF_PROCESS = {"sexton_process_cpu_seconds_total", "sexton_process_resident_memory_bytes"}
PROBED = {"/healthz", "/readyz"}
SETTINGS = {f"SEXTON_{name.upper()}" for name in Settings.__dataclass_fields__}


def documents() -> list[dict[str, Any]]:
    found = []
    for path in MANIFESTS:
        found += [each for each in yaml.safe_load_all(path.read_text()) if "kind" in (each or {})]
    return found


def kinds(*wanted: str) -> list[dict[str, Any]]:
    return [each for each in documents() if each["kind"] in wanted]


def named(document: dict[str, Any]) -> str:
    return f"{document['kind']}/{document.get('metadata', {}).get('name', '-')}"


PODS = kinds("Deployment", "Job")


# ── metrics ─────────────────────────────────────────────────────────────────


def expressions() -> dict[str, str]:
    """Every query of the rules and of the dashboard, by where it stands."""
    found = {
        f"alert {rule['alert']}": rule["expr"]
        for group in ALERTS["groups"]
        for rule in group["rules"]
    }
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            found[f"panel {panel['title']} {target['refId']}"] = target["expr"]
    return found


@pytest.mark.parametrize("where", expressions())
def test_every_metric_that_is_asked_for_is_exported_with_its_labels(where: str) -> None:
    expression = expressions()[where]
    names = set(re.findall(r"\bsexton_\w+", expression))
    assert names
    assert names <= exported() | OF_PROCESS
    known: set[str] = {"le", "instance"}
    for name in names:
        base = re.sub(r"_(total|bucket|sum|count)$", "", name)
        described = METRICS.get(name) or METRICS.get(base)
        known |= set(described.labels) if described else set()
    used = {label.strip() for by in re.findall(r"\b(?:by|on) \(([^)]+)\)", expression)
            for label in by.split(",")}  # fmt: skip
    used |= set(re.findall(r"[{,]\s*(\w+)\s*=", expression))
    assert used <= known, where


def test_what_is_looked_up_by_several_processes_is_never_summed_over_them() -> None:
    names = list(METRICS)
    shared = {name for name in names[names.index("sexton_jobs") :] if "database" not in name}
    for where, expression in expressions().items():
        for name in shared & set(re.findall(r"\bsexton_\w+", expression)):
            before = expression.partition(name)[0]
            assert re.search(r"(max|absent)( by \([^)]+\))? \($|(max|absent)\($", before), where


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("info", "warning", "critical")
            assert rule["annotations"].keys() == {"summary", "description"}
            assert rule["alert"].startswith("Sexton")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool_accepts_the_rules_and_their_tests_pass(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    folder = DEPLOY / "prometheus"
    for words in (
        ("check", "rules", "alerts.yaml"),
        ("test", "rules", "alerts_test.yaml"),
        ("check", "config", "prometheus.yaml"),
    ):
        done = subprocess.run([PROMTOOL, *words], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    rules = [
        {"record": f"x:{nth}", "expr": expression.replace("$__rate_interval", "5m")}
        for nth, expression in enumerate(expressions().values())
    ]
    file = tmp_path / "dashboard.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run([PROMTOOL, "check", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_is_one_that_grafana_can_lay_out() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                 for y in range(at["y"], at["y"] + at["h"])}  # fmt: skip
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["description"]


# ── containers ──────────────────────────────────────────────────────────────


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if not line.startswith("#")]
    return [(words[0], words[1]) for words in lines if len(words) == 2]


def test_the_image_is_slim_has_stages_and_does_not_run_as_root() -> None:
    steps = instructions()
    bases = [rest for word, rest in steps if word == "FROM"]
    assert len(bases) == 2
    assert all("-slim" in base for base in bases)
    last = steps[[word for word, _ in steps].index("FROM", 1) :]
    users = [rest for word, rest in last if word == "USER"]
    assert users == ["10001:10001"]
    after = [word for word, _ in last[last.index(("USER", users[0])) :]]
    assert "RUN" not in after
    assert "COPY" not in after
    assert ("ENTRYPOINT", '["sexton"]') in last
    assert ("STOPSIGNAL", "SIGTERM") in last
    environment = dict(
        word.split("=", 1) for step, rest in last if step == "ENV" for word in shlex.split(rest)
    )
    assert host_and_port("observe", environment["SEXTON_OBSERVE"]) == ("", OBSERVE)
    Settings.load({k: v for k, v in environment.items() if k.startswith("SEXTON_")})
    [health] = [rest for word, rest in last if word == "HEALTHCHECK"]
    assert f":{OBSERVE}/healthz" in health
    [command] = [json.loads(rest) for word, rest in last if word == "CMD"]
    demand_command(command)


def test_what_the_image_copies_is_there_and_let_through() -> None:
    root = DEPLOY.parent
    ignored = (root / ".dockerignore").read_text().splitlines()
    for word, rest in instructions():
        if word == "COPY" and "--from" not in rest:
            for name in rest.split()[:-1]:
                assert (root / name).exists()
                assert f"!{name}" in ignored
    assert ignored[0] == "*", "nothing else is sent to the builder: no key, no history"


def test_compose_has_three_schedulers_five_workers_the_service_and_postgresql() -> None:
    services = COMPOSE["services"]
    replicas = {name: each.get("deploy", {}).get("replicas", 1) for name, each in services.items()}
    assert (replicas["scheduler"], replicas["api"]) == (3, 1)
    assert replicas["worker"] + replicas["deliverer"] == 5
    assert services["postgres"]["image"].startswith("postgres:")
    for name in ("scheduler", "worker", "deliverer", "api", "migrate"):
        service = services[name]
        demand_command(list(service["command"]))
        environment = service["environment"]
        assert environment.keys() <= SETTINGS
        assert "${POSTGRES_PASSWORD:?" in environment["SEXTON_DATABASE_URL"], "never a default"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["depends_on"]["postgres"] == {"condition": "service_healthy"}
        if name != "migrate":
            migrated = {"condition": "service_completed_successfully"}
            assert service["depends_on"]["migrate"] == migrated
    for service in services.values():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), (
                "only this machine, until somebody decides otherwise"
            )
    for service in services.values():
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            assert not source.startswith("./") or (DEPLOY / source).exists(), mount


@pytest.mark.parametrize("name", ["worker", "deliverer", "api"])
def test_compose_gives_longer_to_end_than_the_grace(name: str) -> None:
    service = COMPOSE["services"][name]
    grace = Settings.load({"SEXTON_GRACE": service["environment"]["SEXTON_GRACE"]}).grace
    assert int(service["stop_grace_period"].removesuffix("s")) >= grace + 10


# ── Kubernetes ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("document", PODS, ids=named)
def test_every_pod_runs_a_command_that_exists_as_nobody_in_particular(
    document: dict[str, Any],
) -> None:
    pod = document["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    # A service called sexton-api would otherwise set SEXTON_API_PORT to tcp://…
    assert pod["enableServiceLinks"] is False
    [container] = pod["containers"]
    demand_command(list(container["args"]))
    security = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"]
    for variable in container["env"]:
        assert variable["name"] in SETTINGS
        if variable["name"] in ("SEXTON_DATABASE_URL", "SEXTON_SECRET_KEY"):
            assert "secretKeyRef" in variable["valueFrom"], "by reference, never in a manifest"
    template = document["spec"]["template"]["metadata"]["labels"]
    selector = document["spec"].get("selector", {}).get("matchLabels", {})
    assert selector.items() <= template.items()


@pytest.mark.parametrize("document", kinds("Deployment"), ids=named)
def test_every_deployment_has_probes_that_are_answered_and_a_budget(
    document: dict[str, Any],
) -> None:
    pod = document["spec"]["template"]["spec"]
    [container] = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["observe"] == OBSERVE
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"]["path"] == path
        assert container[probe]["httpGet"]["port"] in ports
    annotations = document["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(OBSERVE)
    labels = document["spec"]["template"]["metadata"]["labels"]
    budgets = [
        each
        for each in kinds("PodDisruptionBudget")
        if each["spec"]["selector"]["matchLabels"].items() <= labels.items()
    ]
    assert len(budgets) == 1
    grace = next(
        (each["value"] for each in container["env"] if each["name"] == "SEXTON_GRACE"), None
    )
    if grace is not None:
        wanted = Settings.load({"SEXTON_GRACE": grace}).grace + 10
        if "lifecycle" in container:
            word, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
            assert word == "sleep"
            wanted += int(seconds)
        assert pod["terminationGracePeriodSeconds"] >= wanted


def test_the_budget_of_the_schedulers_leaves_room_for_one_to_go() -> None:
    [budget] = [
        e for e in kinds("PodDisruptionBudget") if e["metadata"]["name"].endswith("scheduler")
    ]
    [nodes] = [e for e in kinds("Deployment") if e["metadata"]["name"].endswith("scheduler")]
    assert 1 <= budget["spec"]["minAvailable"] < nodes["spec"]["replicas"] == 3


def test_workers_are_scaled_by_the_age_of_their_queue() -> None:
    [scaler] = kinds("HorizontalPodAutoscaler")
    target = scaler["spec"]["scaleTargetRef"]
    assert target["name"] in {each["metadata"]["name"] for each in kinds("Deployment")}
    [metric] = scaler["spec"]["metrics"]
    name = metric["external"]["metric"]["name"]
    assert name in exported()
    labels = metric["external"]["metric"]["selector"]["matchLabels"]
    assert set(labels) == set(METRICS[name].labels)
    adapter = yaml.safe_load((DEPLOY / "kubernetes" / "prometheus-adapter.yaml").read_text())
    [rule] = adapter["externalRules"]
    assert rule["name"]["as"] == rule["seriesQuery"] == name
    [workers] = [e for e in kinds("Deployment") if e["metadata"]["name"] == target["name"]]
    assert "replicas" not in workers["spec"], "an apply would undo what the autoscaler did"


def test_the_service_leads_to_the_pods_and_the_kustomization_to_every_file() -> None:
    [service] = kinds("Service")
    pods = [e for e in kinds("Deployment") if service["spec"]["selector"].items()
            <= e["spec"]["template"]["metadata"]["labels"].items()]  # fmt: skip
    [container] = pods[0]["spec"]["template"]["spec"]["containers"]
    assert service["spec"]["ports"][0]["targetPort"] in {p["name"] for p in container["ports"]}
    # Whom requests are still sent to must still listen.
    assert container["lifecycle"]["preStop"]
    kustomization = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())
    listed = set(kustomization["resources"])
    assert all((DEPLOY / "kubernetes" / name).exists() for name in listed)
    unlisted = {path.name for path in MANIFESTS} - listed
    assert unlisted == {"kustomization.yaml", "prometheus-adapter.yaml"}
    assert not kinds("Secret"), "by reference only"


# ── systemd ─────────────────────────────────────────────────────────────────


class Unit(configparser.RawConfigParser):
    """Options are case-sensitive there."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_every_unit_starts_a_command_that_exists_and_not_as_root(path: Path) -> None:
    unit = Unit(strict=True)
    unit.read_string(path.read_text())
    service = unit["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program == "/opt/sexton/bin/sexton"
    words = [each.replace("${WORKER_APP}", "my_module:app").replace("%i", "1") for each in words]
    demand_command(words)
    if "--observe" in words:
        host, _ = host_and_port("observe", words[words.index("--observe") + 1])
        assert host == "127.0.0.1"
    assert service["User"] == "sexton"
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["EnvironmentFile"] == "/etc/sexton/sexton.env"
    if service["Type"] == "oneshot":
        # All others wait for it, and PostgreSQL may come up after this host.
        assert service["Restart"] == "on-failure"
        assert service["RestartMode"] == "direct"
    else:
        assert service["Restart"] == "always"
        assert "sexton-migrate.service" in unit["Unit"]["After"]
    if "worker" in words:
        assert int(service["TimeoutStopSec"]) >= Settings.load({}).grace + 10


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_knows_every_option_of_the_units(tmp_path: Path) -> None:
    for path in UNITS:
        text = path.read_text().replace("/opt/sexton/bin/sexton", "/bin/true")
        (tmp_path / path.name).write_text(text)
    units = [tmp_path / path.name.replace("@.", "@1.") for path in UNITS]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *units],
        capture_output=True,
        text=True,
    )
    complaints = [line for line in done.stderr.splitlines() if "Unknown" in line]
    # Before 254 it is left alone.
    assert [line for line in complaints if "RestartMode" not in line] == []


def test_the_example_environment_is_one_that_sexton_takes() -> None:
    lines = (DEPLOY / "systemd" / "sexton.env.example").read_text().splitlines()
    pairs = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    assert pairs.pop("WORKER_APP")
    assert pairs.keys() <= SETTINGS
    Settings.load(pairs)


def test_what_kubernetes_says_of_a_service_is_not_taken_for_a_setting() -> None:
    environ = {
        "SEXTON_API_PORT": "tcp://10.0.0.1:80",
        "SEXTON_API_PORT_80_TCP_ADDR": "10.0.0.1",
        "SEXTON_API_SERVICE_HOST": "10.0.0.1",
        "SEXTON_API_SERVICE_PORT_HTTP": "80",
    }
    assert Settings.load(environ).api_port == Settings.load({}).api_port


def test_every_yaml_file_is_read_by_some_test() -> None:
    for path in DEPLOY.rglob("*.yaml"):
        assert list(yaml.safe_load_all(path.read_text())), path
    commands = {each["spec"]["template"]["spec"]["containers"][0]["args"][0] for each in PODS}
    assert commands == {"scheduler", "worker", "api", "migrate"}
