"""Whatever a client does, other clients are answered, frames are processed, and no resource is leaked."""

import gc
import json
import logging
import resource
import socket
import struct
import threading
import time
import tracemalloc
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.web import server as module
from edgemeta.daemon.web.request import MAX_HEAD
from edgemeta.daemon.web.server import MAX_CONNECTIONS, MAX_STREAMS
from rig.waiting import wait_until
from tests.daemon.web.conftest import DEADLINE, TOKEN, Page

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connect(page: Page) -> socket.socket:
    return socket.create_connection(("127.0.0.1", page.port), timeout=DEADLINE)


def all_of(connection: socket.socket) -> bytes:
    """Everything until the server ends the connection, in whatever way."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


EVENTS = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


def events(connection: socket.socket, count: int) -> list[Any]:
    """Ask for events and read some."""
    connection.sendall(EVENTS)
    found: list[Any] = []
    with connection.makefile("rb") as file:
        assert file.readline() == b"HTTP/1.1 200 OK\r\n"
        while len(found) < count:
            line = file.readline()
            assert line, "the events ended"
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:]))
    return found


def look_in(page: Page) -> None:
    """Open the page and leave it; where all places are taken, wait for one: the server soon sees who has left."""
    deadline = time.monotonic() + DEADLINE
    while True:
        with connect(page) as connection:
            connection.sendall(EVENTS)
            if connection.recv(100).startswith(b"HTTP/1.1 200"):
                return
        assert time.monotonic() < deadline
        time.sleep(0.02)


OF_THE_SERVICE = 8  # files that the service itself may open meanwhile: its camera, a try to reach the broker


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_request_that_comes_byte_by_byte_is_answered(serve: Any) -> None:
    with connect(serve()) as connection:
        for byte in GET:
            connection.sendall(bytes([byte]))
        assert all_of(connection).endswith(b"\r\n\r\nalive\n")


def test_the_connection_is_closed_after_the_answer(serve: Any) -> None:
    """One request per connection: what follows it is not read."""
    with connect(serve()) as connection:
        connection.sendall(GET + GET)
        assert all_of(connection).count(b"HTTP/1.1 200") == 1


NO_REQUESTS = [
    (b"nonsense\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),  # TLS
    (b"PRI * HTTP/2.0\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_HEAD + b"\r\n\r\n", 431),
    (b"GET / HTTP/1.1\r\n" + b"X-Many: 1\r\n" * 5000 + b"\r\n", 431),
    (b"POST /sign-in HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n", 413),
    (b"POST /sign-in HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
]


def test_an_invalid_request_is_refused_in_one_line(serve: Any) -> None:
    page = serve()
    for said, status in NO_REQUESTS:
        with connect(page) as connection:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            head, _, body = all_of(connection).partition(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ".encode()), said
        assert body.count(b"\n") == 1


def test_an_idle_connection_is_closed(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_TIMEOUT", 0.2)
    page = serve()
    for said in (
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nA: b\r\n",
        b"POST /sign-in HTTP/1.1\r\nContent-Length: 9\r\n\r\nto",
    ):
        with connect(page) as connection:
            connection.sendall(said)
            assert all_of(connection) == b""


def test_idle_connections_are_closed_for_new_ones(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times as many idle connections as allowed: a real request is answered at once, without a new thread."""
    monkeypatch.setattr(module, "REQUEST_TIMEOUT", 3600.0)  # waiting for the idle ones would take long
    page = serve()
    page.ask("/healthz")
    threads, files = set(threading.enumerate()), open_files()
    with ExitStack() as silent:
        for number in range(1, 3 * MAX_CONNECTIONS + 1):
            silent.enter_context(connect(page))
            assert open_files() - files <= number + MAX_CONNECTIONS + OF_THE_SERVICE
        for _ in range(5):
            assert page.ask("/healthz").status == 200
        assert set(threading.enumerate()) <= threads  # one that an earlier test left may end
    wait_until(lambda: open_files() <= files + OF_THE_SERVICE, "the end of all connections")


def test_wrong_tokens_do_not_exclude_the_right_one(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times as many clients as allowed wait for the answer to their wrong token, which never comes here."""
    monkeypatch.setattr("edgemeta.daemon.web.access.WRONG_TOKEN_DELAY", 3600.0)
    page = serve(web={"token": TOKEN})
    with ExitStack() as guessing:
        for _ in range(3 * MAX_CONNECTIONS):
            connection = guessing.enter_context(connect(page))
            connection.sendall(b"GET /readyz HTTP/1.1\r\nAuthorization: Bearer guess\r\n\r\n")
            assert page.ask("/readyz", Authorization=f"Bearer {TOKEN}").status == 503  # there is no broker


def test_a_lack_of_descriptors_is_logged_once_and_survived(
    serve: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ACCEPT_AGAIN_AFTER", 0.01)
    page = serve()
    page.state_with_frames()
    server: Any = page.service.parts.page
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as client, caplog.at_level(logging.ERROR, "edgemeta"):
        client.settimeout(DEADLINE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
        taken: list[socket.socket] = []
        try:
            with suppress(OSError):
                while True:
                    taken.append(socket.socket())  # until every descriptor below the limit is taken
            client.connect(("127.0.0.1", page.port))
            client.sendall(GET)
            wait_until(lambda: server.problem is not None, "a problem")
            assert server.problem == "page: no connection can be accepted: too many open files"
            time.sleep(0.1)  # some more attempts
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for each in taken:
                each.close()
        assert all_of(client).endswith(b"\r\n\r\nalive\n")
    assert server.problem is None
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [
        "page: no connection can be accepted: too many open files; retrying"
    ]


def test_endless_headers_are_refused(serve: Any) -> None:
    with connect(serve()) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        with suppress(ConnectionError):
            for _ in range(1000):
                connection.sendall(b"X-More: and more\r\n" * 100)
                time.sleep(0.001)
            pytest.fail("1,000 times 100 headers were taken")


def test_clients_that_disconnect_at_once(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    """As port scanners do: connect and reset at once. Their addresses can no longer be asked for."""
    page = serve()
    server: Any = page.service.parts.page
    caplog.clear()
    with caplog.at_level(logging.WARNING, "edgemeta.daemon.web"):
        for _ in range(100):
            connection = connect(page)
            connection.sendall(GET)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        page.wait("/healthz", lambda answer: answer.status == 200 and len(server._connections) == 1)
    assert [record.getMessage() for record in caplog.records if "web" in record.name] == []


def test_events_contain_every_point_once(serve: Any) -> None:
    page = serve()
    page.state_with_frames()
    with connect(page) as connection:
        reported = events(connection, 6)
    assert reported[0]["cameras"]["front"]["points"], "the first event tells what was before"
    times = [point["time_ms"] for state in reported for point in state["cameras"]["front"]["points"]]
    assert len(times) >= 3
    assert times == sorted(set(times))
    sequences = [state["cameras"]["front"]["frame"]["sequence"] for state in reported]
    assert sequences == sorted(sequences)
    assert sequences[-1] > sequences[0]


def test_the_number_of_pages_is_limited(serve: Any) -> None:
    page = serve()
    open_ = [connect(page) for _ in range(MAX_STREAMS)]
    for connection in open_:
        events(connection, 1)
    answer = page.ask("/api/events")
    assert (answer.status, answer.text) == (503, f"{MAX_STREAMS} pages are already open\n")
    assert page.ask("/healthz").status == 200
    open_[0].close()
    look_in(page)
    for connection in open_[1:]:
        connection.close()


def test_a_page_that_reads_no_events_is_disconnected(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads nothing; what waits for it is bounded by the socket's buffers, and it is given up after a while."""
    monkeypatch.setattr("edgemeta.daemon.web.routes.EVENT_INTERVAL", 0.0)
    monkeypatch.setattr(module, "SEND_TIMEOUT", 0.3)
    page = serve()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(DEADLINE)
        connection.connect(("127.0.0.1", page.port))
        connection.sendall(EVENTS)
        wait_until_silent(page, connection)
        received = all_of(connection)
    assert 0 < len(received) < 1_000_000


def wait_until_silent(page: Page, connection: socket.socket) -> None:
    """Wait until the page of a connection, which it does not read, was open and no page is open any more."""
    server: Any = page.service.parts.page
    assert connection.recv(1, socket.MSG_PEEK)
    wait_until(lambda: server._streams == 0, "the end of the page")


def test_many_clients_at_once_are_all_answered(serve: Any) -> None:
    page = serve()
    page.state_with_frames()
    statuses: list[int] = []

    def visit() -> None:
        for path in ("/api/state", "/frame/front.jpg", "/metrics", "/"):
            statuses.append(page.ask(path).status)

    visitors = [threading.Thread(target=visit) for _ in range(20)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join(DEADLINE)
    assert statuses == [200] * 80


@pytest.mark.gate("2 s of processor time: thousands of connections")
def test_connections_leak_no_memory(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of requests and pages; then those again, which must find all the memory they need freed."""
    monkeypatch.setattr("edgemeta.daemon.web.routes.EVENT_INTERVAL", 0.01)
    page = serve()
    page.state_with_frames()
    server: Any = page.service.parts.page

    def held() -> int:
        """What is held once every visitor was seen to have left."""
        wait_until(lambda: not server._connections, "the end of all visits")
        return traced()

    def visit(times: int) -> None:
        for _ in range(times):
            for path in ("/healthz", "/nothing", "/page.js"):
                page.ask(path)
            look_in(page)

    visit(10)
    tracemalloc.start()
    try:
        visit(5)
        before = held()
        visit(30)
        assert held() - before < 30_000
    finally:
        tracemalloc.stop()


def traced() -> int:
    """Bytes that the page's code and asyncio hold; what the service keeps besides is not theirs."""
    gc.collect()
    kept = tracemalloc.take_snapshot().filter_traces(
        [tracemalloc.Filter(True, "*/daemon/web/*"), tracemalloc.Filter(True, "*/asyncio/*")]
    )
    return sum(trace.size for trace in kept.traces)


def test_without_pages_nothing_is_encoded(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr("edgemeta.daemon.web.jpeg.encode", lambda pixels: made.append(pixels) or b"\xff\xd8")
    page = serve()
    page.wait("/healthz", lambda _: page.service.parts.health().frames > 10)
    assert made == []
    assert page.ask("/frame/front.jpg").status == 200
    assert len(made) == 1


def test_stopping_closes_every_connection_and_frees_the_port(serve: Any) -> None:
    before = {thread.name for thread in threading.enumerate()}
    page = serve()
    page.state_with_frames()
    with connect(page) as listener, connect(page) as silent:
        events(listener, 1)
        began = time.monotonic()
        page.service.stop(Deadline(60.0))
        assert time.monotonic() - began < 30.0
        all_of(listener)
        assert all_of(silent) == b""
    assert {thread.name for thread in threading.enumerate()} <= before
    with pytest.raises(ConnectionRefusedError):
        page.ask("/healthz")
    with socket.create_server(("127.0.0.1", page.port)):
        pass


def test_a_connection_made_while_the_page_stops_is_closed_too(serve: Any) -> None:
    """Its connection is accepted in the same turn of the loop in which the stop is heard."""
    page = serve()
    page.state_with_frames()
    server: Any = page.service.parts.page
    busy, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        busy.set()
        go_on.wait(DEADLINE)

    server._loop.call_soon_threadsafe(hold)
    assert busy.wait(DEADLINE)
    with connect(page) as connection:
        server._loop.call_soon_threadsafe(server._stopping.set)
        go_on.set()
        server._thread.join(DEADLINE)
        assert not server._thread.is_alive()
        gc.collect()  # a socket that nobody closed would complain here
        assert all_of(connection) == b""
