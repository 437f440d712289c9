"""The Grafana dashboard and the alert rules ask for what is there: checked by name, and by a real Prometheus."""

import json
import math
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from edgemeta.daemon.metrics.exposition import exposition
from edgemeta.daemon.metrics.readings import Readings

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


def samples(readings: Readings) -> dict[str, Metric]:
    """What is exposed, by the names of its samples."""
    text, _ = exposition(readings)
    families = text_string_to_metric_families(text.decode())
    return {sample.name: family for family in families for sample in family.samples}


def test_every_metric_label_and_value_that_is_asked_for_is_exposed(
    readings: Readings, dashboard: dict[str, Any], alerts: Path
) -> None:
    exposed = samples(readings)
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


def test_a_description_of_an_alert_names_labels_that_it_has(alerts: Path) -> None:
    (group,) = yaml.safe_load(alerts.read_text("utf-8"))["groups"]
    for rule in group["rules"]:
        for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
            assert label == "instance" or label in rule["expr"] or label in ("camera", "reason", "result"), rule[
                "alert"
            ]
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["labels"]["severity"] in ("info", "warning", "critical")


class Prometheus:
    """A real Prometheus that scrapes one address every second."""

    def __init__(self, folder: Path, port: int, target: str) -> None:
        self._address = f"http://127.0.0.1:{port}"
        config = {"scrape_configs": [{"job_name": "edgemeta", "static_configs": [{"targets": [target]}]}]}
        config["global"] = {"scrape_interval": "1s"}  # type: ignore[assignment]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        self.process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def ask(self, expression: str) -> list[float]:
        """The values of an instant query; none before it answers."""
        try:
            with urlopen(f"{self._address}/api/v1/query?{urlencode({'query': expression})}", timeout=10) as answer:
                return [float(series["value"][1]) for series in json.load(answer)["data"]["result"]]
        except HTTPError as error:
            with error:
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise AssertionError(f"{expression}: {error.read()!r}") from error
            return []
        except OSError:
            return []

    def wait(self, expression: str) -> None:
        deadline = time.monotonic() + 60
        while not self.ask(expression):
            assert time.monotonic() < deadline, f"Prometheus never had {expression}"
            time.sleep(0.1)


@pytest.fixture
def make_prometheus(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Callable[[str], Prometheus]]:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed (Debian package prometheus)")
    made: list[Prometheus] = []

    def make(target: str) -> Prometheus:
        made.append(Prometheus(tmp_path, free_port(), target))
        return made[-1]

    yield make
    for prometheus in made:
        prometheus.process.kill()
        prometheus.process.wait()


def test_every_panel_has_something_to_show(
    make_prometheus: Callable[[str], Prometheus],
    broker: Any,
    write_config: Callable[..., Path],
    run_daemon: Callable[..., Any],
    free_port: Callable[[], int],
    dashboard: dict[str, Any],
) -> None:
    """The service runs, Prometheus scrapes it, and every query of the dashboard has numbers."""
    port = free_port()
    run_daemon(
        write_config(mqtt={"host": "127.0.0.1", "port": broker.port}, web={"enabled": True, "port": port}),
    )
    prometheus = make_prometheus(f"127.0.0.1:{port}")
    prometheus.wait('increase(edgemeta_stage_duration_seconds_count{stage="total"}[30s]) > 0')
    empty = []
    for place, expression in queries(dashboard).items():
        values = prometheus.ask(expression)
        if not values or all(math.isnan(value) for value in values):
            empty.append(f"{place}: {expression}")
    assert not empty
    assert prometheus.ask("up") == [1.0]
    assert prometheus.ask('sum(ALERTS{alertstate="firing"})') == []


CAMERA = '{instance="a", job="edgemeta", camera="front"'
STILL = "0x120"
CAUSES = {
    "EdgemetaDown": {'up{instance="a", job="edgemeta"}': STILL},
    "EdgemetaRestarts": {
        'process_start_time_seconds{instance="a", job="edgemeta"}': "0+60x120",
        'edgemeta_build_info{instance="a", job="edgemeta"}': "1x120",
    },
    "EdgemetaThreadHangs": {'edgemeta_threads_hanging{instance="a"}': "1x120"},
    "EdgemetaCameraFailed": {f'edgemeta_camera_state{CAMERA}, state="failed"}}': "1x120"},
    "EdgemetaCameraSilent": {
        f"edgemeta_camera_last_frame_timestamp_seconds{CAMERA}}}": STILL,
        f'edgemeta_camera_state{CAMERA}, state="running"}}': "1x120",
    },
    "EdgemetaCameraUnsteady": {f"edgemeta_camera_failures_total{CAMERA}}}": "0+1x120"},
    "EdgemetaFramesSuperseded": {
        f'edgemeta_frames_dropped_total{CAMERA}, reason="superseded"}}': "0+100x120",
        f"edgemeta_frames_captured_total{CAMERA}}}": "0+1800x120",
    },
    "EdgemetaFramesFail": {f'edgemeta_frames_dropped_total{CAMERA}, reason="failed"}}': "0+1x120"},
    "EdgemetaSlow": {
        'edgemeta_stage_duration_seconds_bucket{instance="a", stage="total", le="0.25"}': "0+98x120",
        'edgemeta_stage_duration_seconds_bucket{instance="a", stage="total", le="0.5"}': "0+100x120",
        'edgemeta_stage_duration_seconds_bucket{instance="a", stage="total", le="+Inf"}': "0+100x120",
    },
    "EdgemetaBrokerAway": {'edgemeta_broker_state{instance="a", state="connected"}': STILL},
    "EdgemetaBrokerRefuses": {'edgemeta_broker_state{instance="a", state="refused_login"}': "1x120"},
    "EdgemetaMessagesRefused": {'edgemeta_broker_messages_refused_total{instance="a"}': "0+1x120"},
    "EdgemetaOutboxInMemory": {'edgemeta_outbox_on_disk{instance="a"}': STILL},
    "EdgemetaMessagesLost": {'edgemeta_outbox_dropped_total{instance="a", reason="full"}': "0+1x120"},
    "EdgemetaSwapFailed": {'edgemeta_swaps_total{instance="a", result="rolled_back"}': "0+1x120"},
    "EdgemetaMemoryGrows": {
        'process_resident_memory_bytes{instance="a", job="edgemeta"}': "0+1000000x600",
        'edgemeta_build_info{instance="a", job="edgemeta"}': "1x600",
    },
    "EdgemetaClockWrong": {'edgemeta_clock_synchronized{instance="a"}': STILL},
}
"""What makes each alert fire: series with one value per minute."""

WELL = {
    'up{instance="a", job="edgemeta"}': "1x600",
    'process_start_time_seconds{instance="a", job="edgemeta"}': "0x200 12000x400",
    'process_resident_memory_bytes{instance="a", job="edgemeta"}': "100000000+1000x600",
    'edgemeta_build_info{instance="a", job="edgemeta"}': "1x600",
    'edgemeta_threads_hanging{instance="a"}': "0x600",
    f'edgemeta_camera_state{CAMERA}, state="failed"}}': "0x600",
    f'edgemeta_camera_state{CAMERA}, state="running"}}': "1x600",
    f"edgemeta_camera_last_frame_timestamp_seconds{CAMERA}}}": "0+60x600",
    f"edgemeta_camera_failures_total{CAMERA}}}": "0x60 1x540",
    f'edgemeta_frames_dropped_total{CAMERA}, reason="superseded"}}': "0+10x600",
    f'edgemeta_frames_dropped_total{CAMERA}, reason="failed"}}': "0x600",
    f"edgemeta_frames_captured_total{CAMERA}}}": "0+1800x600",
    'edgemeta_stage_duration_seconds_bucket{instance="a", stage="total", le="0.001"}': "0+1800x600",
    'edgemeta_stage_duration_seconds_bucket{instance="a", stage="total", le="+Inf"}': "0+1800x600",
    'edgemeta_broker_state{instance="a", state="connected"}': "1x600",
    'edgemeta_broker_state{instance="a", state="refused_login"}': "0x600",
    'edgemeta_broker_messages_refused_total{instance="a"}': "0x600",
    'edgemeta_outbox_on_disk{instance="a"}': "1x600",
    'edgemeta_outbox_dropped_total{instance="a", reason="full"}': "0x600",
    'edgemeta_swaps_total{instance="a", result="rolled_back"}': "0x600",
    'edgemeta_swaps_total{instance="a", result="swapped"}': "0x60 1x540",
    'edgemeta_clock_synchronized{instance="a"}': "1x600",
}
"""A good day: nothing fires."""


def test_every_alert_fires_for_its_cause_and_none_on_a_good_day(alerts: Path, tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    assert list(CAUSES) == list(rules(alerts))
    tests: list[dict[str, Any]] = [
        case(cause, "600m" if name == "EdgemetaMemoryGrows" else "119m", {f'{{alertname="{name}"}}': 1})
        for name, cause in CAUSES.items()
    ]
    tests.append(case(WELL, "599m", {}))
    file = tmp_path / "alerts_test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(alerts)], "evaluation_interval": "1m", "tests": tests}))
    told = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def case(series: dict[str, str], moment: str, firing: dict[str, int]) -> dict[str, Any]:
    """One of promtool's tests: which alerts fire at a moment, counted by name."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": moment,
                "exp_samples": [{"labels": labels, "value": value} for labels, value in firing.items()],
            }
        ],
    }
