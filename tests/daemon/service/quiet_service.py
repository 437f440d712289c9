"""A service in this process that logs nothing, for tests that give it thousands of wrong configs."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.service.plan import prepare
from edgemeta.daemon.service.service import Service


@contextmanager
def running_quietly(config: Path) -> Iterator[Service]:
    """Run a service until the end of the block; nothing may have ended one of its threads."""
    faults: list[BaseException] = []
    service = Service(prepare(config), faults.append)
    service.start()
    logging.disable()
    yield service
    logging.disable(logging.NOTSET)
    service.stop(Deadline(10.0))
    assert faults == []
