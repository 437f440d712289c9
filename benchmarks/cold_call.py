"""What a pause between frames costs one thread of the `cpu` backend, and how much of it is Python's.

    python benchmarks/cold_call.py [MODEL]

A call right after another one finds code, weights and maps in the caches; after a pause nothing is left in the first
two. Measured in turn: a session's call; the sum of its steps, timed inside C; and calls of a C function that does
nothing, with arguments that ctypes converts and with arguments that are C types already, as `Program.bind` has them.
Writes results/cold-call.json and .md.
"""

import argparse
import time
from collections.abc import Callable
from ctypes import CDLL, c_int32, c_void_p
from functools import partial
from statistics import median

from benchmarks.result_file import write_json, write_markdown
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta.plugins.cpu.backend import BACKEND, CpuSession
from edgemeta.plugins.measure import random_image


def main() -> None:
    """Measure and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="resnet8-cifar10", help="a file or a shipped name")
    parser.add_argument("--calls", type=int, default=400, help="of each kind")
    parser.add_argument("--pause", type=float, default=10.0, help="milliseconds before a call")
    chosen = parser.parse_args()
    model = load(find(chosen.model))
    image = random_image(model)
    session = BACKEND.compile(model, {"threads": 1})
    assert isinstance(session, CpuSession)
    calls = {
        "session": seconds_of(partial(session.run, image)),
        "its steps, inside C": lambda: sum(session.profile(image).values()) / 1e6,
        **{f"empty function, {name}": seconds_of(call) for name, call in empty_calls().items()},
    }
    hot, cold = (medians(calls, chosen.calls, pause) for pause in (0.0, chosen.pause / 1e3))
    session.close()
    command = f"python benchmarks/cold_call.py {chosen.model}"
    write_json("cold-call", command, {"model": chosen.model, "pause_ms": chosen.pause, "hot_us": hot, "paced_us": cold})
    lines = ["| call, median of µs | one after the other | after a pause |", "|---|---:|---:|"]
    lines += [f"| {name} | {hot[name]:.1f} | {cold[name]:.1f} |" for name in calls]
    text = f"`{chosen.model}`, one thread, {session.isa}; the pause is {chosen.pause:g} ms.\n\n" + "\n".join(lines)
    write_markdown("cold-call", command, text)
    print(text)


def empty_calls() -> dict[str, Callable[[], object]]:
    """Calls of a C function that ignores its arguments."""
    converted, bound = CDLL(None)["getpid"], CDLL(None)["getpid"]
    converted.argtypes = (c_void_p, c_int32, c_void_p, c_void_p)
    return {
        "arguments converted": lambda: converted(1 << 40, 1, 1 << 40, 1 << 40),
        "arguments bound": partial(bound, c_void_p(1 << 40), c_int32(1), c_void_p(1 << 40), c_void_p(1 << 40)),
        "no arguments": CDLL(None)["getpid"],
    }


def seconds_of(call: Callable[[], object]) -> Callable[[], float]:
    """Makes the call and returns its time."""

    def timed() -> float:
        begun = time.perf_counter_ns()
        call()
        return (time.perf_counter_ns() - begun) / 1e9

    return timed


def medians(calls: dict[str, Callable[[], float]], count: int, pause: float) -> dict[str, float]:
    """Microseconds of each call, made in turn with a pause before; without one, each `count` times on end."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    if pause == 0:
        for name, call in calls.items():
            times[name] = [call() for _ in range(count)]
    else:
        for _ in range(count):
            for name, call in calls.items():
                time.sleep(pause)
                times[name].append(call())
    return {name: round(1e6 * median(values), 2) for name, values in times.items()}


if __name__ == "__main__":
    main()
