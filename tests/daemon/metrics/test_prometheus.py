"""The exposition, read by the parser of the client library and by Prometheus' own tool."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from edgemeta.daemon.messages.records import CameraState, Drops
from edgemeta.daemon.messages.stats import BrokerFailures, Stages
from edgemeta.daemon.metrics.latency import BOUNDS_NS
from edgemeta.daemon.metrics.prometheus import exposition
from edgemeta.daemon.metrics.snapshot import MetricsSnapshot


@pytest.fixture
def parsed(snapshot: MetricsSnapshot) -> dict[str, Metric]:
    text, _ = exposition(snapshot)
    return {family.name: family for family in text_string_to_metric_families(text.decode())}


def values(family: Metric, label: str | None = None, **labels: str) -> object:
    """The samples that have these labels: by the value of another label, or the only one."""
    matching = [sample for sample in family.samples if labels.items() <= sample.labels.items()]
    if label is None:
        (sample,) = matching
        return sample.value
    return {sample.labels[label]: sample.value for sample in matching}


def test_every_number_of_the_readings_arrives_under_its_name(
    snapshot: MetricsSnapshot, parsed: dict[str, Metric]
) -> None:
    assert values(parsed["edgemeta_build_info"], version="1.2.3") == 1
    assert values(parsed["edgemeta_config_info"], device="gate", sha256="cd" * 32) == 1
    assert values(parsed["edgemeta_uptime_seconds"]) == 86_400.5
    assert values(parsed["edgemeta_clock_synchronized"]) == 1
    assert values(parsed["edgemeta_threads_hanging"]) == snapshot.hanging
    for name, camera in snapshot.cameras.items():
        assert values(parsed["edgemeta_frames_captured"], camera=name) == camera.counts.captured
        assert values(parsed["edgemeta_frames_processed"], camera=name) == camera.counts.processed
        assert values(parsed["edgemeta_frames_published"], camera=name) == camera.counts.published
        assert values(parsed["edgemeta_frames_withheld"], camera=name) == camera.counts.withheld
        assert values(parsed["edgemeta_frames_unknown"], camera=name) == camera.counts.unknown
        assert values(parsed["edgemeta_pictures_due"], camera=name) == camera.counts.pictures.due
        assert values(parsed["edgemeta_pictures_published"], camera=name) == camera.counts.pictures.published
        assert values(parsed["edgemeta_frames_dropped"], "reason", camera=name) == camera.counts.dropped.model_dump()
        assert values(parsed["edgemeta_camera_failures"], camera=name) == camera.failures
        assert values(parsed["edgemeta_camera_outages"], camera=name) == camera.outages
        assert values(parsed["edgemeta_camera_runs"], camera=name) == camera.runs
        assert values(parsed["edgemeta_camera_damaged_frames"], camera=name) == camera.damaged
        assert values(parsed["edgemeta_camera_frame_interval_seconds"], camera=name) == camera.frame_interval
        assert camera.counts.counts is not None
        present = {"car": 0, "person": camera.counts.counts["person"], 'a "dog"': 0}
        assert values(parsed["edgemeta_camera_objects"], "label", camera=name) == present
        appeared = {"car": 0, **camera.appeared}
        assert values(parsed["edgemeta_camera_objects_appeared"], "label", camera=name) == appeared
        for (kind, change), number in camera.events.items():
            assert values(parsed["edgemeta_camera_events"], camera=name, kind=kind, change=change) == number
        assert values(parsed["edgemeta_camera_events"], camera=name, kind="object", change="end") == 0
        assert values(parsed["edgemeta_camera_info"], camera=name, name='Tür "West"') == 1
        model = {"camera": name, "name": camera.model.name, "sha256": "ab" * 32, "backend": "cpu"}
        assert values(parsed["edgemeta_model_info"], **model) == 1
    camera_states = values(parsed["edgemeta_camera_state"], "state", camera="front")
    assert camera_states == {state.value: int(state is CameraState.RUNNING) for state in CameraState}
    states = values(parsed["edgemeta_broker_state"], "state")
    assert isinstance(states, dict)
    assert [state for state, value in states.items() if value] == ["unreachable"]
    assert values(parsed["edgemeta_broker_failures"], "kind") == snapshot.link.failures.model_dump()
    assert values(parsed["edgemeta_broker_connects"]) == snapshot.link.connects
    assert values(parsed["edgemeta_broker_messages_published"]) == snapshot.link.published
    assert values(parsed["edgemeta_broker_messages_refused"]) == snapshot.link.refused
    assert values(parsed["edgemeta_broker_refuses"]) == (snapshot.link.refuses is not None)
    assert values(parsed["edgemeta_outbox_messages"]) == snapshot.outbox.waiting
    assert values(parsed["edgemeta_outbox_size_bytes"]) == snapshot.outbox.bytes
    assert values(parsed["edgemeta_outbox_on_disk"]) == 0
    assert values(parsed["edgemeta_outbox_replayed"]) == snapshot.outbox.replayed
    assert values(parsed["edgemeta_outbox_dropped"], "reason") == {
        "full": snapshot.outbox.dropped,
        "expired": snapshot.outbox.expired,
        "damaged": snapshot.outbox.damaged,
    }
    assert values(parsed["edgemeta_swaps"], "result") == snapshot.swaps


def test_a_camera_without_a_frame_has_no_age_of_its_last(parsed: dict[str, Metric]) -> None:
    assert values(parsed["edgemeta_camera_last_frame_age_seconds"], "camera") == {"front": 12.25}


def test_an_outbox_configured_in_memory_is_not_reported_as_an_error(snapshot: MetricsSnapshot) -> None:
    text, _ = exposition(replace(snapshot, wants_disk=False))
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    assert families["edgemeta_outbox_on_disk"].samples == []


def test_histograms_are_in_seconds_and_complete(snapshot: MetricsSnapshot, parsed: dict[str, Metric]) -> None:
    family = parsed["edgemeta_stage_duration_seconds"]
    assert family.type == "histogram"
    for stage, reading in snapshot.stages.items():
        samples = [sample for sample in family.samples if sample.labels["stage"] == stage]
        buckets = {float(sample.labels["le"]): sample.value for sample in samples if sample.name.endswith("_bucket")}
        assert list(buckets) == [*(bound / 1e9 for bound in BOUNDS_NS), float("inf")]
        assert list(buckets.values()) == [*reading.up_to, reading.count]
        (total,) = (sample.value for sample in samples if sample.name.endswith("_sum"))
        assert total == pytest.approx(reading.count * 123_456e-9)


def test_every_series_is_there_from_the_start(parsed: dict[str, Metric]) -> None:
    """A counter that appears only with its first event shows no increase: reasons, kinds and stages begin at 0."""
    reasons = {sample.labels["reason"] for sample in parsed["edgemeta_frames_dropped"].samples}
    assert reasons == set(Drops.model_fields)
    assert {s.labels["kind"] for s in parsed["edgemeta_broker_failures"].samples} == set(BrokerFailures.model_fields)
    assert {s.labels["stage"] for s in parsed["edgemeta_stage_duration_seconds"].samples} == set(Stages.model_fields)


def test_this_process_is_among_the_metrics(parsed: dict[str, Metric]) -> None:
    for name in ("process_resident_memory_bytes", "process_open_fds", "process_threads", "process_start_time_seconds"):
        value = values(parsed[name])
        assert isinstance(value, float)
        assert value >= 1
    assert parsed["process_cpu_seconds"].type == "counter"


def test_names_and_help_go_by_the_conventions(parsed: dict[str, Metric]) -> None:
    for name, family in parsed.items():
        assert re.fullmatch(r"(edgemeta|process)_[a-z_]*[a-z]", name)
        assert family.documentation.endswith(".")
        assert not re.search(r"milli|micro|_ms\b|_us\b|minutes|kilo|percent", name), "base units only"
        assert family.type in ("counter", "gauge", "histogram")


def test_promtool_finds_no_problem(snapshot: MetricsSnapshot) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    text, content_type = exposition(snapshot)
    assert content_type.startswith("text/plain; version=")
    reported = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (reported.returncode, reported.stdout, reported.stderr) == (0, b"", b"")
    planted = text.replace(b"edgemeta_frames_captured_total", b"edgemeta_frames_captured_ms")
    reported = subprocess.run([promtool, "check", "metrics"], input=planted, capture_output=True, check=False)
    assert reported.returncode != 0, "the check itself finds a name that breaks the conventions"
