"""Where the page listens: a port in use, an address of another machine, version 6."""

import http.client
import logging
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.web import server as module
from rig.waiting import wait_until
from tests.daemon.conftest import wait_for_line
from tests.daemon.web.conftest import DEADLINE, port_of

IPV6 = Path("/proc/net/if_inet6")
"""The kernel's list of this machine's addresses of version 6."""


def test_a_port_in_use_is_reported_and_retried(write_config: Any, run_daemon: Any, free_port: Any) -> None:
    """The service runs meanwhile: what it is there for needs no page."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        daemon = run_daemon(
            write_config(web={"enabled": True, "port": port}, mqtt={"host": "127.0.0.1", "port": free_port()})
        )
        wait_for_line(daemon, "camera front: running")
        wait_for_line(daemon, f"page not served: 127.0.0.1 port {port}: address already in use; retrying")
    wait_for_line(daemon, f"page at http://127.0.0.1:{port}/")
    assert daemon.said.count("page not served") == 1
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()
    assert daemon.stop() == 0


def test_an_address_of_another_machine_is_reported(
    serve: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at boot, before the network is up; the status says so, and the end does not wait."""
    page = serve()
    server: Any = page.service.parts.page
    other = module.WebServer("192.0.2.1", 8480, server._routes, page.crashes.append)
    with caplog.at_level(logging.ERROR, "edgemeta"):
        other.start()
        wait_until(lambda: other.problem is not None, "a problem")
    assert other.problem == "page not served: 192.0.2.1 port 8480: cannot assign requested address"
    began = time.monotonic()
    other.stop(60.0)
    assert time.monotonic() - began < 30.0


def test_an_ipv6_address(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    """If the machine has ::1 the page is served there, otherwise the error is logged."""
    page = serve()
    server: Any = page.service.parts.page
    six = module.WebServer("::1", 0, server._routes, page.crashes.append)
    has_it = IPV6.is_file() and f"{1:032x}" in IPV6.read_text()
    expected = "page at http://[::1]:" if has_it else "page not served: ::1 port 0: "
    with caplog.at_level(logging.INFO, "edgemeta"):
        six.start()
        wait_until(lambda: expected in caplog.text, expected)
    six.stop(DEADLINE)


def test_the_logged_port_is_the_one_in_use(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    page = serve()
    assert port_of(caplog) == page.port
    assert page.ask("/healthz").text == "alive\n"
