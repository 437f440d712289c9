"""Readings in which every number differs, so that no two can be mistaken for each other."""

import itertools

import pytest

from edgemeta.daemon.broker_state import BrokerState
from edgemeta.daemon.latency import StageLatencies
from edgemeta.daemon.messages import (
    BrokerFailures,
    BrokerStats,
    CameraState,
    CameraStats,
    Drops,
    ModelIdentity,
    OutboxStats,
    Stages,
    SwapResult,
)
from edgemeta.daemon.metrics.readings import CameraReading, Readings


@pytest.fixture
def readings() -> Readings:
    numbers = itertools.count(1)
    latencies = StageLatencies()
    for stage in Stages.model_fields:
        for _ in range(next(numbers)):
            latencies.add({stage: 123_456})

    def camera(state: CameraState, last_frame: float | None) -> CameraReading:
        return CameraReading(
            counts=CameraStats(
                captured=next(numbers),
                processed=next(numbers),
                published=next(numbers),
                withheld=next(numbers),
                dropped=Drops(**{reason: next(numbers) for reason in Drops.model_fields}),
            ),
            state=state,
            failures=next(numbers),
            runs=next(numbers),
            last_frame=last_frame,
            model=ModelIdentity(name='a "quoted"\nname', sha256="ab" * 32),
            backend="cpu",
        )

    return Readings(
        device="gate",
        version="1.2.3",
        config_sha256="cd" * 32,
        clock_synchronized=True,
        hanging=next(numbers),
        cameras={"front": camera(CameraState.RUNNING, 1795290051.25), "back": camera(CameraState.FAILED, None)},
        stages=latencies.histograms(),
        broker=BrokerState.UNREACHABLE,
        link=BrokerStats(
            connects=next(numbers),
            published=next(numbers),
            refused=next(numbers),
            failures=BrokerFailures(**{kind: next(numbers) for kind in BrokerFailures.model_fields}),
            last_failure="gone",
        ),
        outbox=OutboxStats(
            place="memory",
            reason="full",
            waiting=next(numbers),
            bytes=next(numbers),
            replayed=next(numbers),
            dropped=next(numbers),
            expired=next(numbers),
        ),
        swaps={result.value: next(numbers) for result in SwapResult},
    )
