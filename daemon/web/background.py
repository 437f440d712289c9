"""A thread for answers that need the disk, so that a slow one delays no other page."""

import asyncio
import queue
from collections.abc import Callable

from edgemeta.daemon.runtime.threads import guarded_thread
from edgemeta.daemon.web.response import Response


class Background:
    """Makes answers one after the other. Started with the first; a call that hangs is abandoned with the thread."""

    def __init__(self, on_fatal: Callable[[BaseException], None]) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = guarded_thread("page disk", self._run, on_fatal)
        self._started = False

    async def make(self, answer: Callable[[], Response]) -> Response:
        """Have an answer made; raises what making it raises."""
        if not self._started:
            self._started = True
            self._thread.start()
        loop = asyncio.get_running_loop()
        made: asyncio.Future[Response] = loop.create_future()

        def work() -> None:
            try:
                result = answer()
            except Exception as error:  # noqa: BLE001 - raised again where it is awaited
                _tell(loop, made, error)
            else:
                _tell(loop, made, result)

        self._work.put(work)
        return await made

    def stop(self) -> None:
        """End the thread after the answer in progress."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def _tell(loop: asyncio.AbstractEventLoop, made: "asyncio.Future[Response]", result: Response | Exception) -> None:
    def tell() -> None:
        if made.done():  # the client has gone
            return
        if isinstance(result, Response):
            made.set_result(result)
        else:
            made.set_exception(result)

    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:  # the page was stopped
        return
