"""Every alert fires for its cause and stays silent for what only looks like it: Prometheus' own tool runs the rules."""

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgemeta.daemon.messages.broker_state import BrokerState

DEVICE = 'instance="a", job="edgemeta"'
CAMERA = f'{DEVICE}, camera="front"'
SCRAPE_S = 15
"""Seconds between two scrapes. In a series one value stands for one scrape; `AxN` is A and then N times A again."""

ALWAYS = 10_000
"""Scrapes: more than any day has."""


@dataclass(frozen=True)
class Day:
    """What Prometheus scraped, for so many minutes, and which alerts must fire at any time within the last of them."""

    what: str
    series: Mapping[str, str]
    minutes: int
    fires: frozenset[str] = frozenset()
    """Empty: not one of all rules."""
    last: int | None = None
    """How many of the minutes count; None: all."""


def day(what: str, series: Mapping[str, str], minutes: int, *fires: str, last: int | None = None) -> Day:
    return Day(what, series, minutes, frozenset(fires), last)


def steps(*parts: tuple[float, int]) -> str:
    """A series of constant parts: (value, scrapes)."""
    return " ".join(f"{value:g}x{count - 1}" for value, count in parts)


def state(camera: str, value: str) -> dict[str, str]:
    return {f'edgemeta_camera_state{{{CAMERA}, state="{camera}"}}': value}


def broker(name: str, value: str) -> dict[str, str]:
    return {f'edgemeta_broker_state{{{DEVICE}, state="{name}"}}': value}


def slow(value: str, connected: str) -> dict[str, str]:
    return broker("slow", value) | broker("connected", connected)


def one(name: str, value: str, labels: str = DEVICE) -> dict[str, str]:
    return {f"{name}{{{labels}}}": value}


def buckets(fast: int, count: int) -> dict[str, str]:
    """Frames per scrape: so many below a quarter of a second, of so many."""
    of = f'{DEVICE}, stage="total", le='
    return {
        f'edgemeta_stage_duration_seconds_bucket{{{of}"0.25"}}': f"0+{fast}x{ALWAYS}",
        f'edgemeta_stage_duration_seconds_bucket{{{of}"0.5"}}': f"0+{count}x{ALWAYS}",
        f'edgemeta_stage_duration_seconds_bucket{{{of}"+Inf"}}': f"0+{count}x{ALWAYS}",
    }


BUILD = one("edgemeta_build_info", f"1x{ALWAYS}")
RUNNING = state("running", f"1x{ALWAYS}")
START = "process_start_time_seconds"
MEMORY = "process_resident_memory_bytes"
UPTIME = one("edgemeta_uptime_seconds", f"0+{SCRAPE_S}x{ALWAYS}")
ON_DISK, LOST = "edgemeta_outbox_on_disk", "edgemeta_outbox_dropped_total"
AGE, INTERVAL = "edgemeta_camera_last_frame_age_seconds", "edgemeta_camera_frame_interval_seconds"
LIVE = one(INTERVAL, f"0x{ALWAYS}", CAMERA)
DAMAGED = "edgemeta_camera_damaged_frames_total"
OUTAGES, TRIES = "edgemeta_camera_outages_total", "edgemeta_camera_failures_total"
SUPERSEDED = f'edgemeta_frames_dropped_total{{{CAMERA}, reason="superseded"}}'
FAILED = f'edgemeta_frames_dropped_total{{{CAMERA}, reason="failed"}}'
CAPTURED = f"edgemeta_frames_captured_total{{{CAMERA}}}"
BROKEN = f'edgemeta_broker_failures_total{{{DEVICE}, kind="lost"}}'
UNREACHED = f'edgemeta_broker_failures_total{{{DEVICE}, kind="unreachable"}}'

DAYS = {
    "EdgemetaDown": [
        day("no scrape succeeds", one("up", f"0x{ALWAYS}"), 10, "EdgemetaDown"),
        day("a restart of one minute", one("up", steps((1, 40), (0, 4), (1, 100))), 12),
        day("another job is down", {'up{instance="a", job="other"}': f"0x{ALWAYS}"}, 10),
    ],
    "EdgemetaRestarts": [
        day("four restarts", BUILD | one(START, steps(*((s, 20) for s in range(100, 105)))), 24, "EdgemetaRestarts"),
        day("three restarts", BUILD | one(START, steps(*((s, 20) for s in range(100, 104)), (103, 20))), 24),
        day("another program restarts", one(START, f"0+1x{ALWAYS}", 'instance="b", job="node"') | BUILD, 24),
    ],
    "EdgemetaThreadHangs": [
        day(
            "a hang that the watchdog ends after 30 s",
            one("edgemeta_threads_hanging", steps((0, 20), (1, 2), (0, 40))),
            7,
            "EdgemetaThreadHangs",
        ),
        day("a hang half an hour ago", one("edgemeta_threads_hanging", steps((1, 2), (0, 200))), 35, last=5),
    ],
    "EdgemetaCameraFailed": [
        day("two minutes without frames", state("failed", f"1x{ALWAYS}"), 2, "EdgemetaCameraFailed"),
        day("an outage of 45 s", state("failed", steps((0, 20), (1, 3), (0, 50))), 6),
        day("a clip that is over", state("ended", f"1x{ALWAYS}") | state("failed", f"0x{ALWAYS}"), 10),
    ],
    "EdgemetaCameraSeesNothing": [
        day("a frozen picture", state("frozen", f"1x{ALWAYS}"), 4, "EdgemetaCameraSeesNothing"),
        day("a black picture", state("black", f"1x{ALWAYS}"), 4, "EdgemetaCameraSeesNothing"),
        day("frozen for a minute", state("frozen", steps((0, 20), (1, 4), (0, 50))), 10),
    ],
    "EdgemetaCameraDelayed": [
        day("a link that is too slow", state("delayed", f"1x{ALWAYS}"), 3, "EdgemetaCameraDelayed"),
        day("a stall of 45 s", state("delayed", steps((0, 20), (1, 3), (0, 50))), 10),
    ],
    "EdgemetaCameraDamaged": [
        day("a damaged frame each 3 s", one(DAMAGED, f"0+5x{ALWAYS}", CAMERA), 15, "EdgemetaCameraDamaged"),
        day("a burst", one(DAMAGED, steps((0, 20), (20, 100)), CAMERA), 20),
    ],
    "EdgemetaCameraSilent": [
        day("the last frame is 90 s old", RUNNING | LIVE | one(AGE, f"90x{ALWAYS}", CAMERA), 5, "EdgemetaCameraSilent"),
        day("frames flow, two hours ahead or behind", RUNNING | LIVE | one(AGE, f"0.03x{ALWAYS}", CAMERA), 300),
        day(
            "a camera of one frame in five minutes",
            RUNNING | one(INTERVAL, f"300x{ALWAYS}", CAMERA) | one(AGE, "0+15x20 0+15x20 0+15x20 0+15x20", CAMERA),
            19,
        ),
        day(
            "a camera that is known to have failed",
            state("running", f"0x{ALWAYS}") | LIVE | one(AGE, f"0+15x{ALWAYS}", CAMERA),
            30,
        ),
    ],
    "EdgemetaCameraUnsteady": [
        day(
            "three outages",
            one(OUTAGES, steps((0, 20), (1, 10), (2, 10), (3, 20)), CAMERA),
            14,
            "EdgemetaCameraUnsteady",
        ),
        day(
            "one outage, tried sixty times",
            one(OUTAGES, steps((0, 20), (1, 40)), CAMERA) | one(TRIES, steps((0, 20), (60, 40)), CAMERA),
            14,
        ),
        day("two outages", one(OUTAGES, steps((0, 20), (1, 20), (2, 20)), CAMERA), 14),
        day("three in an hour", one(OUTAGES, steps((0, 80), (1, 80), (2, 80), (3, 80)), CAMERA), 60),
        day("a count that begins anew", one(OUTAGES, steps((2, 20), (0, 40)), CAMERA), 14),
    ],
    "EdgemetaFramesSuperseded": [
        day(
            "one in eighteen",
            {SUPERSEDED: f"0+25x{ALWAYS}", CAPTURED: f"0+450x{ALWAYS}"},
            30,
            "EdgemetaFramesSuperseded",
        ),
        day("one in thirty", {SUPERSEDED: f"0+15x{ALWAYS}", CAPTURED: f"0+450x{ALWAYS}"}, 30),
        day("no frames at all", {SUPERSEDED: f"50x{ALWAYS}", CAPTURED: f"900x{ALWAYS}"}, 30),
    ],
    "EdgemetaOverloaded": [
        day(
            "overloaded for ten minutes", one("edgemeta_overloaded", steps((0, 20), (1, 40))), 14, "EdgemetaOverloaded"
        ),
        day(
            "three seconds of each four",
            one("edgemeta_overloaded", " ".join(["1 1 1 0"] * 30)),
            20,
            "EdgemetaOverloaded",
        ),
        day("for a minute", one("edgemeta_overloaded", steps((0, 20), (1, 4), (0, 40))), 9),
    ],
    "EdgemetaFramesFail": [
        day("a frame that failed", {FAILED: steps((0, 20), (1, 20))}, 6, "EdgemetaFramesFail"),
        day("one that failed an hour ago", {FAILED: steps((0, 20), (1, 300))}, 65, last=5),
        day("a count that begins anew", {FAILED: steps((7, 20), (0, 20))}, 6),
    ],
    "EdgemetaSlow": [
        day("two in a hundred", buckets(98, 100), 30, "EdgemetaSlow"),
        day("one in two hundred", buckets(199, 200), 30),
        day("no frames", buckets(0, 0), 30),
    ],
    "EdgemetaBrokerAway": [
        day("three minutes away", broker("connected", f"0x{ALWAYS}"), 3, "EdgemetaBrokerAway"),
        day("90 s away", broker("connected", steps((1, 20), (0, 6), (1, 20))), 8),
    ],
    "EdgemetaBrokerSlow": [
        day("two minutes", slow(steps((0, 20), (1, 8)), steps((1, 20), (0, 8))), 7, "EdgemetaBrokerSlow"),
        day("half a minute", slow(steps((0, 20), (1, 2), (0, 20)), steps((1, 20), (0, 2), (1, 20))), 10),
    ],
    "EdgemetaBrokerUnsteady": [
        day(
            "three broken connections",
            {BROKEN: steps((0, 20), (1, 10), (2, 10), (3, 20))},
            14,
            "EdgemetaBrokerUnsteady",
        ),
        day(
            "one broken connection, tried sixty times",
            {BROKEN: steps((0, 20), (1, 40)), UNREACHED: steps((0, 20), (60, 40))},
            14,
        ),
    ],
    "EdgemetaBrokerAcknowledgesNothing": [
        day(
            "two minutes without an acknowledgement",
            broker("unacknowledged", steps((0, 20), (1, 8))),
            7,
            "EdgemetaBrokerAcknowledgesNothing",
        ),
        day("a broker that hung for half a minute", broker("unacknowledged", steps((0, 20), (1, 2), (0, 20))), 10),
    ],
    "EdgemetaBrokerRefuses": [
        day("a wrong password", broker("refused_login", f"1x{ALWAYS}"), 6, "EdgemetaBrokerRefuses"),
        day(
            "a fight for the client id",
            broker("client_id_taken", "1 1 1 0 1 1 1 1 0 1 1 1 1 1 0 1 1 1 1 1 1 0 1 1 1"),
            6,
            "EdgemetaBrokerRefuses",
        ),
        day("one refusal while the broker starts", broker("refused", steps((1, 4), (0, 40))), 6),
        day("one refusal later", broker("refused", steps((0, 20), (1, 4), (0, 40))), 7),
        day("a broker that is away", broker("unreachable", f"1x{ALWAYS}") | broker("refused", f"0x{ALWAYS}"), 6),
    ],
    "EdgemetaMessagesRefused": [
        day(
            "a message",
            one("edgemeta_broker_messages_refused_total", steps((0, 20), (1, 20))),
            8,
            "EdgemetaMessagesRefused",
        ),
        day("an hour ago", one("edgemeta_broker_messages_refused_total", steps((0, 20), (1, 300))), 65, last=5),
    ],
    "EdgemetaOutboxInMemory": [
        day("the disk is full", one(ON_DISK, f"0x{ALWAYS}"), 6, "EdgemetaOutboxInMemory"),
        day("full and not, in turn", one(ON_DISK, " ".join(["1 0"] * 60)), 20, "EdgemetaOutboxInMemory"),
        day("full for a minute", one(ON_DISK, steps((1, 20), (0, 4), (1, 40))), 8),
        day("memory at the start", one(ON_DISK, steps((0, 1), (1, 40))), 8),
    ],
    "EdgemetaMessagesLost": [
        day("some", one(LOST, steps((0, 20), (9, 20)), f'{DEVICE}, reason="full"'), 8, "EdgemetaMessagesLost"),
        day("before a restart", one(LOST, steps((9, 20), (0, 40)), f'{DEVICE}, reason="full"'), 12),
    ],
    "EdgemetaSwapFailed": [
        day(
            "a rollback",
            one("edgemeta_swaps_total", steps((0, 20), (1, 20)), f'{DEVICE}, result="rolled_back"'),
            8,
            "EdgemetaSwapFailed",
        ),
        day("swaps that went well", one("edgemeta_swaps_total", f"0+1x{ALWAYS}", f'{DEVICE}, result="swapped"'), 8),
    ],
    "EdgemetaModelRefused": [
        day("a start with the last good one", one("edgemeta_model_refused", f"1x{ALWAYS}"), 6, "EdgemetaModelRefused"),
        day("put right within a minute", one("edgemeta_model_refused", steps((0, 8), (1, 4), (0, 40))), 12),
    ],
    "EdgemetaMemoryGrows": [
        day("100 MB in five hours", UPTIME | one(MEMORY, f"1e8+1e5x{ALWAYS}"), 660, "EdgemetaMemoryGrows"),
        day("a start that takes 400 MB", UPTIME | one(MEMORY, steps((4e7, 8), (4.4e8, ALWAYS))), 660),
        day("a peak of an hour", UPTIME | one(MEMORY, steps((1e8, 1900), (9e8, 200), (1e8, 2000))), 510),
        day(
            "a restart with a larger network",
            one(MEMORY, steps((1e8, 1200), (3e8, 2000))) | one("edgemeta_uptime_seconds", f"0+15x1199 0+15x{ALWAYS}"),
            480,
        ),
        day("another program grows", UPTIME | one(MEMORY, f"1e8+1e6x{ALWAYS}", 'instance="b", job="node"'), 660),
    ],
    "EdgemetaClockWrong": [
        day("never synchronized", one("edgemeta_clock_synchronized", f"0x{ALWAYS}"), 70, "EdgemetaClockWrong"),
        day("half an hour after a boot", one("edgemeta_clock_synchronized", steps((0, 120), (1, 300))), 80),
    ],
}
"""By the alert that each day is about."""

GOOD = {
    **BUILD,
    **RUNNING,
    **LIVE,
    **UPTIME,
    **buckets(30 * SCRAPE_S, 30 * SCRAPE_S),
    **one("up", f"1x{ALWAYS}"),
    **one(START, f"1795290051x{ALWAYS}"),
    **one(MEMORY, f"1e8+1e3x{ALWAYS}"),
    **one("edgemeta_threads_hanging", f"0x{ALWAYS}"),
    **state("failed", f"0x{ALWAYS}"),
    **state("frozen", f"0x{ALWAYS}"),
    **state("delayed", f"0x{ALWAYS}"),
    **one(DAMAGED, f"0x{ALWAYS}", CAMERA),
    **one(AGE, f"0.02x{ALWAYS}", CAMERA),
    **one(OUTAGES, f"0x{ALWAYS}", CAMERA),
    **one(TRIES, f"0x{ALWAYS}", CAMERA),
    SUPERSEDED: f"0+2x{ALWAYS}",
    FAILED: f"0x{ALWAYS}",
    CAPTURED: f"0+450x{ALWAYS}",
    **{
        key: value
        for each in BrokerState
        for key, value in broker(each.value, f"{int(each is BrokerState.CONNECTED)}x{ALWAYS}").items()
    },
    BROKEN: f"0x{ALWAYS}",
    UNREACHED: f"0x{ALWAYS}",
    **one("edgemeta_broker_messages_refused_total", f"0x{ALWAYS}"),
    **one(ON_DISK, f"1x{ALWAYS}"),
    **one(LOST, f"0x{ALWAYS}", f'{DEVICE}, reason="full"'),
    **one("edgemeta_swaps_total", f"0x{ALWAYS}", f'{DEVICE}, result="refused"'),
    **one("edgemeta_model_refused", f"0x{ALWAYS}"),
    **one("edgemeta_clock_synchronized", f"1x{ALWAYS}"),
}


@pytest.fixture(scope="module")
def alerts() -> Path:
    return Path(__file__).parents[3] / "configs" / "prometheus" / "alerts.yaml"


def rules(alerts: Path) -> list[str]:
    (group,) = yaml.safe_load(alerts.read_text("utf-8"))["groups"]
    return [rule["alert"] for rule in group["rules"]]


def test_every_rule_has_days_on_which_it_fires_and_days_on_which_it_does_not(alerts: Path) -> None:
    assert list(DAYS) == rules(alerts)
    for name, days in DAYS.items():
        assert any(name in each.fires for each in days), name
        assert any(not each.fires for each in days), name


CASES = [(name, each) for name, days in DAYS.items() for each in days] + [("all", day("three good hours", GOOD, 180))]


def days_test(alerts: Path, case: Day) -> str:
    """A day as promtool's test of rules."""
    window = f"{case.last or case.minutes}m"
    scrapes = case.minutes * 60 // SCRAPE_S + 1
    tests: list[dict[str, Any]] = [
        {
            "interval": f"{SCRAPE_S}s",
            "input_series": [
                {"series": key, "values": values.replace(f"x{ALWAYS}", f"x{scrapes}")}
                for key, values in case.series.items()
            ],
            "promql_expr_test": [
                {
                    "expr": f'count by (alertname) (max_over_time(ALERTS{{alertstate="firing"}}[{window}]))',
                    "eval_time": f"{case.minutes}m",
                    "exp_samples": [{"labels": f'{{alertname="{each}"}}', "value": 1} for each in case.fires],
                }
            ],
        }
    ]
    return yaml.safe_dump({"rule_files": [str(alerts)], "evaluation_interval": "1m", "tests": tests})


def verdicts_of(days: list[Day], alerts: Path, folder: Path) -> list[list[str]]:
    """What promtool says of every day, in lines; ["SUCCESS"] where it is right."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    files = [folder / f"{number}_test.yaml" for number in range(len(days))]
    for file, each in zip(files, days, strict=True):
        file.write_text(days_test(alerts, each))
    command = [promtool, "test", "rules", *map(str, files)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    said = answer.stdout.split("Unit Testing:  ")[1:]
    assert [each.splitlines()[0] for each in said] == [str(file) for file in files]
    return [[line.strip() for line in each.splitlines()[1:] if line.strip()] for each in said]


@pytest.fixture(scope="module")
def verdicts(alerts: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """Of every day in one run: promtool takes longer to start than for most days."""
    return verdicts_of([case for _, case in CASES], alerts, tmp_path_factory.mktemp("days"))


@pytest.mark.gate("10 s of processor time: Prometheus runs the rules over 60 days")
@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{name}: {each.what}" for name, each in CASES])
def test_what_fires_on_a_day(verdicts: list[list[str]], number: int) -> None:
    assert verdicts[number] == ["SUCCESS"]


@pytest.mark.gate("4 s: 1440 minutes of every rule")
def test_nothing_fires_on_a_normal_day(alerts: Path, tmp_path: Path) -> None:
    assert verdicts_of([day("a good day", GOOD, 1440)], alerts, tmp_path) == [["SUCCESS"]]
