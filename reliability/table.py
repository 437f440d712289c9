"""The table of docs/reliability.md, from the result files: the promise, the measurement, and the command."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"

PROMISED_MOVES = ("shift 0.1", "shift 0.25", "turn 10", "turn 15", "turn 45")
"""Of `moved_cameras.py`."""


class Row(NamedTuple):
    """One promise, its measurement and the result file."""

    promise: str
    measured: str
    result: str


def read(name: str) -> dict[str, Any]:
    """Read a result file."""
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return content


def rows() -> Iterator[Row]:
    """Return the rows."""
    yield from (
        _outages(),
        _acknowledgements(),
        _full_disk(),
        _soak(),
        _camera_return(),
        _camera_failures(),
        _liveness(),
        _moved_cameras(),
        _swaps(),
        _command_flood(),
        _home_assistant(),
        _fuzz(),
        *_lifecycle(),
        _simulate_kills(),
        _search_kills(),
    )


def _outages() -> Row:
    one = read("outages")
    lost, messages = sum(one["lost"].values()), one["frames"] + one["states"]
    outages, kills = sum(one["outages"].values()), sum(one["kills_of_the_service"].values())
    measured = f"{lost} of {messages} lost in {outages} outages of the broker and {kills} SIGKILLs of the service"
    return Row("No message is lost while the outbox's bounds are kept", measured, "outages")


def _acknowledgements() -> Row:
    one = read("acknowledgements")
    back = "; ".join(f"{name}: {fault['live_frames_again_after_s']:.1f} s" for name, fault in one["faults"].items())
    promise = (
        f"Where the broker acknowledges nothing, live frames flow again within {one['promised_s']:g} s of "
        f"`mqtt.ack_timeout`, or of a longer fault's end, and nothing is lost"
    )
    return Row(promise, f"{back}; {sum(one['lost'].values())} of {one['frames']} frames lost", "acknowledgements")


def _full_disk() -> Row:
    one = read("full-disk")
    latest = max(one["delivered_after_the_broker_s"])
    measured = (
        f"{sum(one['lost'].values())} of {one['frames']} frames lost, {one['stuck']} messages stuck; all sent "
        f"{latest:.1f} s after the broker's return at the latest; {one['log_lines_of_the_outbox']} log lines and a "
        f"write-ahead log of {one['greatest_log_bytes'] / 1e6:.1f} MB at most in {one['minutes']:g} minutes; "
        f"{one['in_memory_when_the_service_was_stopped']} messages in memory ended with the service when it was stopped"
    )
    promise = "With its disk full, the outbox sends all that it has, also after a restart, and logs 12 lines at most"
    return Row(promise, measured, "full-disk")


def _soak() -> Row:
    one = read("soak")
    faults = f"{one['faults_played']} faults of {len(one['faults'])} kinds, {one['two_at_once']} times two at once"
    run = f"{one['starts_of_the_service']} starts, {round(one['seconds'] / 60)} minutes"
    timed = sum(duration["count"] for duration in one["durations"].values())
    kinds = sorted({entry.rpartition(":")[0] for entry in one["late"]})
    named = f" ({', '.join(kinds)})" if kinds else ""
    late = f"{len(one['late'])} of {timed} recoveries later than promised{named}"
    measured = f"{sum(one['lost'].values())} of {one['frames']} frames lost, {late}; {faults}, {run}"
    return Row("Whatever part fails, all comes back and every frame is accounted for", measured, "soak")


def _camera_return() -> Row:
    ways = {name: one for name, one in read("camera-return").items() if isinstance(one, dict) and "greatest_s" in one}
    description = (
        f"{name}: median {one['median_s']:.2f} s, longest {one['greatest_s']:.2f} s" for name, one in ways.items()
    )
    return Row("A camera's first frame is published within 2 s of its return", "; ".join(description), "camera-return")


def _camera_failures() -> Row:
    one = read("camera-failures")
    grown = [kind["grown"] for kind in one["kinds"].values()]
    memory = max(kind["rss_kib"] for kind in grown)
    left = max(kind[what] for kind in grown for what in ("files", "threads", "processes"))
    more = f"at most {memory} KiB and {left} files, threads or processes more; a planted leak is seen"
    measured = f"{one['failures']} failures of each of {len(grown)} kinds: {more}"
    return Row("Failures of a camera leave nothing behind", measured, "camera-failures")


def _liveness() -> Row:
    one = read("liveness")
    took = [fault["after_s"] for fault in one["faults"].values()]
    late = sum(each is None or each > one["promised_s"] for each in took)
    stay = sum(fault["stays"] for fault in one["faults"].values())
    measured = (
        f"{len(took)} faults, {late} of them named later (the last after {max(took):.1f} s), {stay} said once; "
        f"{len(one['false_alarms'])} of {one['scenes']} scenes of night with a false alarm in "
        f"{one['minutes_of_night'] / 60:g} h; {one['us_per_frame_1080p_25fps']['mean']:.0f} µs per frame of 1080p"
    )
    promise = (
        f"A picture that is frozen, black, late or damaged is named within {one['promised_s']:g} s and stays so, "
        "and a quiet night is no alarm"
    )
    return Row(promise, measured, "liveness")


def _moved_cameras() -> Row:
    clips = read("moved-cameras")["clips"]
    shown = sum(each["seconds_shown"] for each in clips)
    named = [each["named_after_s"][move] for each in clips for move in PROMISED_MOVES]
    missed = sum(time is None for time in named)
    measured = (
        f"{sum(each['called_moved'] for each in clips)} pictures of {len(clips)} clips called moved in {shown} s; "
        f"{missed} of {len(named)} moves not named, the last after {max(filter(None, named)):g} s"
    )
    promise = (
        "With `moved_after: 3` a view shifted by 10 % or turned by 10° is named within 4 s, and people, cars and light "
        "are no alarm"
    )
    return Row(promise, measured, "moved-cameras")


def _swaps() -> Row:
    one = read("swaps")
    failing = one["swaps"] - one["ended"]["swapped"]
    swaps = f"{one['swaps']} swaps, {failing} of them failing: {one['grown']['rss_kib']} KiB more"
    measured = f"{swaps}, {one['frames']['lost']} frames lost; a planted leak is seen"
    return Row("Swaps of the model leave nothing behind and lose no frame", measured, "swaps")


def _command_flood() -> Row:
    one = read("command-flood")
    floods = one["floods"].values()
    rates = [flood["messages_per_second"] for flood in floods]
    late, frames = sum(flood["late"] for flood in floods), sum(flood["frames"] for flood in floods)
    longest, without = max(flood["delay_longest_ms"] for flood in floods), one["without_a_flood"]["delay_longest_ms"]
    memory = max(flood["memory_after_kib"] - flood["memory_before_kib"] for flood in floods)
    delays = f"from capture to a subscriber at most {longest:.0f} ms, without a flood {without:.0f} ms"
    sent = f"{min(rates)} to {max(rates)} commands per second of {len(rates)} kinds"
    nice = f"the flooder with niceness {one['niceness_of_the_flooder']}"
    measured = f"{late} of {frames} frames late by more than one frame ({delays}); {memory} KiB more; {sent}, {nice}"
    return Row("A flood of commands delays no frame and leaves nothing behind", measured, "command-flood")


def _home_assistant() -> Row:
    one = read("home-assistant")
    number, platforms = sum(one["entities"].values()), len(one["entities"])
    measured = (
        f"core {one['core']}: {number} entities of {platforms} platforms, "
        f"{len(one['services'])} kinds of controls used; "
        f"{len(one['wrong'])} wrong, {len(one['complaints'])} complaints in its log"
    )
    promise = "A Home Assistant sets up every entity with its value, and each control shows what the service then says"
    return Row(promise, measured, "home-assistant")


def _fuzz() -> Row:
    one = read("fuzz")
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(one["inputs"].items()))
    measured = f"{len(one['failed'])} failures with {one['inputs_in_all']} inputs: {kinds}"
    return Row("Damaged input crashes nothing and changes nothing", measured, "fuzz")


def _simulate_kills() -> Row:
    one = read("simulate-kills")
    workers = sorted({run["workers"] for run in one["runs"]})
    same = one["kills"] - one["other_weights"]
    measured = f"{same} of {one['kills']} runs of {', '.join(map(str, workers))} workers, killed at random moments"
    promise = "A training in the simulator of which a worker is killed goes on to the weights of an undisturbed one"
    return Row(promise, measured, "simulate-kills")


def _search_kills() -> Row:
    one = read("search-kills")
    measured = (
        f"{one['lost']} of {one['trials']} trials lost, {one['twice']} counted twice in {one['kills']} rounds with a "
        f"journal and with PostgreSQL; {one['given_again']} given again"
    )
    promise = "Of a search whose workers, or whose database's server, are killed no trial is lost and none counts twice"
    return Row(promise, measured, "search-kills")


def _lifecycle() -> Iterator[Row]:
    for promise, step in (
        ("Ready within 1.5 s of the start (backend `cpu`)", "start_to_ready"),
        ("A changed config in effect within 1 s of SIGHUP", "reload"),
        ("The end within 2 s of SIGTERM", "stop"),
        ("The same while a camera and the broker hang; the outbox is on disk", "stop_where_camera_and_broker_hang"),
    ):
        one = read("lifecycle")[step]
        measured = f"median {one['median_s']:.2f} s, longest {one['greatest_s']:.2f} s of {one['runs']}"
        yield Row(promise, measured, "lifecycle")


def table() -> str:
    """Return the table in Markdown."""
    lines = ["| promise | measured | with | result |", "|---|---|---|---|"]
    for row in rows():
        link = f"[{row.result}.json](../benchmarks/results/{row.result}.json)"
        lines.append(f"| {row.promise} | {row.measured} | `{read(row.result)['command']}` | {link} |")
    return "\n".join(lines)
