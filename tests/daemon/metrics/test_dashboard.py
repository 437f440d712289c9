"""The Grafana dashboard and the alert rules ask for what is there: checked by name, and by a real Prometheus."""

import json
import math
import re
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.metrics.device_health import HealthReader
from edgemeta.daemon.metrics.prometheus import HEALTH, exposition
from edgemeta.daemon.metrics.snapshot import MetricsSnapshot
from rig.square_detector import save_square_detector, write_squares
from tests.daemon.metrics.conftest import Prometheus

VARIABLES = {"$__rate_interval": "30s", "$instance": ".*", "$camera": ".*", "$stage": "total", "${datasource}": "x"}


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    path = Path(__file__).parents[3] / "configs" / "grafana" / "edgemeta.json"
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content


@pytest.fixture(scope="module")
def alerts() -> Path:
    return Path(__file__).parents[3] / "configs" / "prometheus" / "alerts.yaml"


def queries(dashboard: dict[str, Any]) -> dict[str, str]:
    """Every query with Grafana's variables filled in, by panel."""
    found = {}
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            found[f"{panel['title']} {target['refId']}"] = expression
    return found


def rules(alerts: Path) -> dict[str, str]:
    (group,) = yaml.safe_load(alerts.read_text("utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


def samples(snapshot: MetricsSnapshot) -> dict[str, Metric]:
    """What is exposed, by the names of its samples."""
    text, _ = exposition(snapshot)
    families = text_string_to_metric_families(text.decode())
    return {sample.name: family for family in families for sample in family.samples}


def test_every_metric_label_and_value_that_is_asked_for_is_exposed(
    snapshot: MetricsSnapshot, dashboard: dict[str, Any], alerts: Path
) -> None:
    exposed = samples(snapshot)
    wrong = []
    for place, expression in (queries(dashboard) | rules(alerts)).items():
        names = set(re.findall(r"\b(?:edgemeta|process)_[a-z_]+", expression))
        assert names or 'up{job="edgemeta"}' in expression, f"{place} asks for nothing of edgemeta"
        wrong += [f"{place}: {name}" for name in names if name not in exposed]
        for name, selectors in re.findall(r"\b((?:edgemeta|process)_[a-z_]+)\{([^}]*)\}", expression):
            for label, operator, value in re.findall(r'(\w+)(=~|!=|=)"([^"]*)"', selectors):
                there = {s.labels.get(label) for s in exposed[name].samples if s.name == name}
                if label != "instance" and not any(one is not None and re.fullmatch(value, one) for one in there):
                    wrong.append(f"{place}: {name}{{{label}{operator}{value!r}}}")
    assert not wrong


def test_grafana_finds_what_it_needs(dashboard: dict[str, Any]) -> None:
    """Numbers of panels differ, none lies upon another, and every data source is the one that the user chooses."""
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: dict[tuple[int, int], str] = {}
    for panel in panels:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${datasource}"
            assert panel["description"].endswith(".")
    kinds = {variable["name"]: variable["type"] for variable in dashboard["templating"]["list"]}
    assert kinds == {"datasource": "datasource", "instance": "query", "camera": "query", "stage": "query"}


@pytest.mark.parametrize(
    ("title", "states"), [("Camera states", CameraState), ("Connection to the broker", BrokerState)]
)
def test_a_timeline_shows_every_state_by_its_name(dashboard: dict[str, Any], title: str, states: type[Enum]) -> None:
    """A state that the sum leaves out would look like the first one."""
    (panel,) = (panel for panel in dashboard["panels"] if panel["title"] == title)
    (mapping,) = panel["fieldConfig"]["defaults"]["mappings"]
    summed = re.findall(r'(\d+) \* sum by \([^)]*\) \([^)]*state="(\w+)"', panel["targets"][0]["expr"])
    assert dict(summed) == {number: option["text"] for number, option in mapping["options"].items()}
    assert sorted(state for _, state in summed) == sorted(state.value for state in states)


def test_no_query_compares_the_clocks_of_two_machines(dashboard: dict[str, Any], alerts: Path) -> None:
    """`time()` is the clock of Prometheus; a device's may be hours away from it."""
    for place, expression in (queries(dashboard) | rules(alerts)).items():
        assert "time()" not in expression.replace("_over_time(", ""), place


def test_a_description_of_an_alert_names_labels_that_it_has(alerts: Path) -> None:
    (group,) = yaml.safe_load(alerts.read_text("utf-8"))["groups"]
    for rule in group["rules"]:
        for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
            assert label == "instance" or label in rule["expr"] or label in ("camera", "reason", "result"), rule[
                "alert"
            ]
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["labels"]["severity"] in ("info", "warning", "critical")


@pytest.mark.gate("7 s of scrapes")
def test_every_panel_has_data(
    make_prometheus: Callable[[str], Prometheus],
    broker: Any,
    write_config: Callable[..., Path],
    run_daemon: Callable[..., Any],
    free_port: Callable[[], int],
    dashboard: dict[str, Any],
    tmp_path: Path,
) -> None:
    """The service runs, Prometheus scrapes it, and every query of the dashboard has numbers."""
    port = free_port()
    squares = str(write_squares(tmp_path / "squares.png", {(1, 1): "red"}))
    model = str(save_square_detector(tmp_path / "squares.safetensors"))
    run_daemon(
        write_config(
            mqtt={"host": "127.0.0.1", "port": broker.port},
            web={"enabled": True, "port": port},
            cameras={
                "front": {"source": "synthetic://", "fps": 30},
                "yard": {"source": squares, "fps": 20, "loop": True, "model": model},
            },
        ),
    )
    prometheus = make_prometheus(f"127.0.0.1:{port}")
    prometheus.wait('increase(edgemeta_stage_duration_seconds_count{stage="total"}[30s]) > 0')
    prometheus.wait("increase(edgemeta_camera_objects_appeared_total[30s]) >= 0")  # of a camera that began later
    health = HealthReader(tmp_path).last
    unsaid = [name for field, name, _ in HEALTH if getattr(health, field) is None]
    asked = {place: each for place, each in queries(dashboard).items() if not any(name in each for name in unsaid)}
    empty = list(asked)

    def has_data(place: str) -> bool:
        values = prometheus.ask(asked[place])
        return bool(values) and not all(math.isnan(value) for value in values)

    deadline = time.monotonic() + 60  # the first scrapes may have failed
    while (empty := [place for place in empty if not has_data(place)]) and time.monotonic() < deadline:
        time.sleep(1)
    assert not empty
    prometheus.wait("up == 1")
    assert prometheus.ask('sum(ALERTS{alertstate="firing"})') == []
