"""The HTTP server: one thread, one request per connection, and a bound on everything a visitor can take up.

Visitors that say nothing make way for new ones, so that nobody can keep others out by holding connections. An address
that cannot be listened on does not stop the service: it says so and tries again.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from edgemeta.daemon.runtime.backoff import Backoff
from edgemeta.daemon.runtime.threads import guarded_thread
from edgemeta.daemon.web.request import MAX_HEAD, Request, RequestError, parse
from edgemeta.daemon.web.response import Answer, Response, Stream, head_of, sentence
from edgemeta.daemon.web.routes import Routes

log = logging.getLogger(__name__)

VISITORS = 64
"""Connections at one time."""

STREAMS = 8
"""Pages open at one time."""

HEARD_WITHIN = 5.0
"""Seconds that a visitor has to send its request."""

SENT_WITHIN = 10.0
"""Seconds that a visitor has to take an answer, or one event."""

KERNEL_KEEPS = 65_536
"""Bytes that the kernel may keep for a visitor that reads slowly."""

LINGERS = 1.0
"""Seconds in which the rest of a refused request is read and thrown away, so that the refusal arrives."""

RETRY_FIRST, RETRY_CAP = 1.0, 30.0
"""Seconds before the address is tried again."""

ACCEPTED_WITHIN = 5
"""Turns of the loop in which the connection that was accepted last has become a visit: where asyncio's server is closed
or its tasks are cancelled before that, the connection's socket stays open."""


class WebServer:
    """Serves a site at an address, from `start` to `stop`."""

    def __init__(self, host: str, port: int, site: Routes, on_fatal: Callable[[BaseException], None]) -> None:
        self._host, self._port = host, port
        self._site = site
        self._thread = guarded_thread("page", self._run, on_fatal)
        self._visits: dict[asyncio.Task[None], bool] = {}  # whether the request was heard; the oldest first
        self._streams = 0
        self.problem: str | None = None
        """Why nothing is served, in words; None while the page is there."""

    def start(self) -> None:
        """Begin to listen."""
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End every connection and the thread; nothing happens where it never started."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # the loop has just ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self._loop.set_exception_handler(_log_fault)
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await self._listen()
        if server is None:
            return
        host, port = server.sockets[0].getsockname()[:2]
        log.info("page at http://%s:%d/", f"[{host}]" if ":" in host else host, port)
        await self._stopping.wait()
        for listening in server.sockets:
            self._loop.remove_reader(listening.fileno())
        for _ in range(ACCEPTED_WITHIN):
            await asyncio.sleep(0)
        server.close()
        visits = asyncio.all_tasks() - {asyncio.current_task()}
        for visit in visits:
            visit.cancel()
        await asyncio.gather(*visits, return_exceptions=True)
        await asyncio.sleep(0)  # in which the connections' ends are told to them

    async def _listen(self) -> asyncio.Server | None:
        """Listen, as soon as the address is free; None at the end."""
        backoff = Backoff(RETRY_FIRST, RETRY_CAP)
        while not self._stopping.is_set():
            try:
                server = await asyncio.start_server(
                    self._visit, self._host, self._port, limit=MAX_HEAD, backlog=VISITORS
                )
            except OSError as error:
                self._say(f"page not served: {self._host} port {self._port}: {_reason(error)}")
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), backoff.next())
            else:
                self.problem = None
                return server
        return None

    def _say(self, problem: str) -> None:
        if problem != self.problem:
            log.error("%s; it is tried again", problem)
        self.problem = problem

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; whatever the visitor does, nothing is left of it."""
        visit = asyncio.current_task()
        assert visit is not None
        self._visits[visit] = False
        self._make_room()
        try:
            writer.transport.set_write_buffer_limits(0)  # so that `drain` waits until the kernel has all
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_KEEPS)
            await self._talk(visit, reader, writer)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError) as error:
            log.debug("page: a visitor left or was sent away: %r", error)
        finally:
            writer.transport.abort()
            del self._visits[visit]

    def _make_room(self) -> None:
        """Send away whoever has been silent for longest, where there are too many."""
        if len(self._visits) > VISITORS:
            next(visit for visit, heard in self._visits.items() if not heard).cancel()

    async def _talk(
        self, visit: "asyncio.Task[None]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            request = await asyncio.wait_for(_hear(reader, writer), HEARD_WITHIN)
        except RequestError as error:
            await _send(writer, sentence(error.status, str(error)))
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(_throw_away(reader), LINGERS)
            return
        self._visits[visit] = True
        answer = self._answer(request)
        if isinstance(answer, Response):
            await asyncio.sleep(answer.delay)
            await _send(writer, answer, with_body=request.method != "HEAD")
        elif request.method == "HEAD":
            await _send(writer, answer)
        else:
            await self._stream(writer, answer)

    def _answer(self, request: Request) -> Answer:
        try:
            return self._site.answer(request)
        except Exception:
            # A request must not end the service: cameras go on, the visitor and the log are told.
            log.exception("page: %s could not be answered", request.path)
            return sentence(HTTPStatus.INTERNAL_SERVER_ERROR, "this could not be answered; the service's log says why")

    async def _stream(self, writer: asyncio.StreamWriter, stream: Stream) -> None:
        """Send event after event until the visitor leaves, or no longer takes them."""
        if self._streams >= STREAMS:
            await _send(writer, sentence(HTTPStatus.SERVICE_UNAVAILABLE, f"{STREAMS} pages are open already"))
            return
        self._streams += 1
        try:
            writer.write(head_of(stream))
            cursor = stream.cursor
            while not self._stopping.is_set():  # before Python 3.12 `wait_for` may swallow the cancellation
                event, cursor = stream.after(cursor)
                writer.write(event)
                await asyncio.wait_for(writer.drain(), SENT_WITHIN)
                await asyncio.sleep(stream.every)
        finally:
            self._streams -= 1


async def _hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    """Read one request. Raises RequestError, and IncompleteReadError where the visitor left before its end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        raise RequestError(status, f"at most {MAX_HEAD} bytes of headers are read here") from None
    request = parse(head, str(writer.get_extra_info("peername")[0]))
    body = await reader.readexactly(request.length)
    return replace(request, body=body)


async def _send(writer: asyncio.StreamWriter, answer: Answer, with_body: bool = True) -> None:
    """Send an answer, and say that nothing follows it."""
    body = answer.body if isinstance(answer, Response) and with_body else b""
    writer.write(head_of(answer) + body)
    await asyncio.wait_for(writer.drain(), SENT_WITHIN)
    writer.write_eof()


async def _throw_away(reader: asyncio.StreamReader) -> None:
    while await reader.read(MAX_HEAD):
        pass


def _log_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.error("page: %s", context["message"], exc_info=context.get("exception"))


def _reason(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)
