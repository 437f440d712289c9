"""The priority of a stream's process: after the service, before background work."""

import os
import subprocess
import sys

import pytest

GIVES_WAY = """
import os
from edgemeta.daemon.capture.sources.stream.limits import give_way
before = os.nice(0)
give_way()
print(before, os.nice(0))
"""


@pytest.mark.parametrize("more", [0, 2, 7, 10])
def test_a_stream_gives_way_to_the_service_and_not_to_background_work(more: int) -> None:
    command = ["nice", "-n", str(more), sys.executable, "-c", GIVES_WAY]
    before, after = map(int, subprocess.run(command, capture_output=True, check=True).stdout.split())
    assert before == min(19, os.getpriority(os.PRIO_PROCESS, 0) + more)
    if before < 10:
        assert before <= after < 10
        assert after == min(before + 5, 9)
    else:
        assert after == before
