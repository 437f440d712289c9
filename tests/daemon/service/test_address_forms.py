"""Forty forms of addresses as makers print them, each with a secret: it is shown nowhere."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from edgemeta.cli.service import check
from edgemeta.daemon.config.loader import ConfigError
from rig.waiting import wait_until
from tests.daemon.conftest import Daemon, Subscriber, broker_keys

SECRET = "geheim"
FORMS = [
    *(
        "rtsp://admin:geheim@HOST/cam/realmonitor?channel=1&subtype=0",
        "rtsp://admin:geheim@HOST/Streaming/Channels/101",
    ),
    *(
        "rtsp://geheim@HOST/live",
        "rtsp://:geheim@HOST/live",
        "rtsp://geheim:@HOST/live",
        "rtsp://a:g%20geheim@HOST/live",
    ),
    *(
        "rtsp://admin:ge@geheim@HOST/1",
        "rtsp://admin:a:b:geheim@HOST/1",
        "rtsps://admin:geheim@HOST/1",
        "RTSP://u:geheim@HOST",
    ),
    *("rtsp://HOST/user=admin&password=geheim&channel=1&stream=0.sdp?real_stream", "rtsp://HOST/geheim"),
    *("rtsp://HOST/user=admin_password=geheim_channel=1_stream=0.sdp", "rtsp://HOST/s7v1geheim9?enableSrtp"),
    *("rtsp://HOST/11?usr=admin&pwd=geheim", "rtsp://HOST/1?loginuse=admin&loginpas=geheim", "rtsp://HOST/#geheim"),
    *("rtsp://HOST/live;auth=geheim", "rtsp://HOST/axis-media/media.amp?geheim", "rtsp://[::1]:PORT/geheim"),
    *("http://HOST/videostream.cgi?user=admin&pwd=geheim", "http://HOST/cgi-bin/CGIProxy.fcgi?cmd=x&usr=a&pwd=geheim"),
    *("http://HOST/mjpg?token=geheim", "http://HOST/img?sid=geheim&x=1", "http://HOST/t/geheim/mjpeg.cgi?-speed=0"),
    *("http://HOST/?access_key=geheim", "http://HOST/x?u=admin:geheim", "http://admin:geheim@HOST/video/mjpg.cgi"),
    *("http://HOST/redirect/geheim", "https://u:geheim@HOST/?a=%67geheim", "http://HOST/snapshot?sign=geheim%3D%3D"),
    *("http://HOST/?passwd=geheim&_=1", "http://h\u00e4user:geheim@HOST/x", "http://u:geheim@no-host.invalid/geheim"),
    "gstreamer://rtspsrc location=rtsp://u:geheim@HOST/geheim user-id=u user-pw=geheim ! decodebin",
    "gstreamer://rtspsrc location=rtsp://HOST/x user-id=geheim user-pw='a geheim b' ! fakesink",
    "gstreamer://videotestsrc pattern=geheim ! fakesink",
    "gstreamer://uridecodebin uri=rtsp://u:geheim@HOST/geheim ! geheim",
    "gstreamer://souphttpsrc location=http://HOST/geheim user-pw=geheim cookies=geheim ! jpegdec",
    "gstreamer://'filesrc' location=/geheim ! decodebin",
    *(
        "rtsp://admin:ge/geheim@HOST/1",
        "rtsp://admin:ge#geheim@HOST/1",
        "rtsp://admin:ge?geheim@HOST/1",
        "rtsp:/u:geheim@HOST",
    ),
    *(
        "rtsp//u:geheim@HOST/1",
        "u:geheim@HOST/1",
        "rtsp://HOST:geheim/1",
        "rtmp://u:geheim@HOST/app/geheim",
        "//HOST/geheim",
    ),
    *("rtsp://u:geheim@HOST:1/1", "rtsp://u:${geheim}@HOST/1", "rtsp://a:100%geheim@HOST/1", "onvif://u:geheim@HOST"),
]


@pytest.fixture
def camera() -> Iterator[int]:
    """A camera's port: it quotes every request in a redirection or a refusal of the login, and serves nothing."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client, suppress(OSError):
                    client.settimeout(2)
                    head = client.recv(4096).decode("latin-1")
                    place = head.split(" ")[1] if " " in head else "/"
                    if "/redirect/" in place:
                        answer = f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/{place}\r\n"
                    else:
                        kind = "RTSP/1.0" if "RTSP" in head else "HTTP/1.1"
                        answer = f'{kind} 401 Unauthorized\r\nWWW-Authenticate: Basic realm="{place}"\r\n'
                    cseq = re.search(r"CSeq: *\d+", head)
                    client.sendall(
                        f"{answer}{cseq[0] if cseq else 'X: 1'}\r\nContent-Length: 0\r\n\r\n".encode("latin-1")
                    )

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def addresses(port: int) -> list[str]:
    return [form.replace("HOST", f"127.0.0.1:{port}").replace("PORT", str(port)) for form in FORMS]


def valid(write_config: Callable[..., Path], port: int) -> list[str]:
    """The addresses that `check` accepts; what it says about the others has no secret either."""
    good = []
    for address in addresses(port):
        path = write_config(cameras={"front": {"source": address}})
        said = [CliRunner().invoke(check, [*options, str(path)]) for options in ([], ["--json"])]
        assert isinstance(said[0].exception, ConfigError | NoneType)
        assert not [each for each in said if SECRET in f"{each.output}{each.exception}"], address
        good += [address] if said[0].exit_code == 0 else []
    return good


def test_check_shows_no_secret(write_config: Callable[..., Path]) -> None:
    assert len(FORMS) >= 40
    assert len(valid(write_config, 554)) >= 30


def command_lines(pid: int) -> Iterator[bytes]:
    """The arguments of a process and of those below it."""
    with suppress(OSError):
        yield Path(f"/proc/{pid}/cmdline").read_bytes()
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from command_lines(int(child))


@pytest.mark.gate("a service with thirty cameras, each in a process of its own")
def test_a_service_shows_no_secret(
    write_config: Callable[..., Path],
    run_daemon: Callable[..., Daemon],
    broker: Any,
    subscriber: Subscriber,
    camera: int,
    free_port: Callable[[], int],
    tmp_path: Path,
) -> None:
    good, page = valid(write_config, camera), free_port()
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(tmp_path / "notify"))
    notify.setblocking(False)
    path = write_config(
        cameras={f"c{number}": {"source": address, "frame_timeout": 5} for number, address in enumerate(good)},
        mqtt=broker_keys(broker),
        web={"enabled": True, "port": page},
        log={"level": "debug"},
    )
    daemon = run_daemon(path, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="10000000")
    arguments: set[bytes] = set()
    failed: set[str] = set()

    def all_failed() -> bool:
        arguments.update(command_lines(daemon.process.pid))
        failed.update(m.json["camera"] for m in subscriber.on("/status") if m.payload and m.json["status"] == "failed")
        return len(failed) == len(good)

    wait_until(all_failed, "the failure of each camera", 120)
    shown = [daemon.said, *(message.payload.decode(errors="replace") for message in list(subscriber.received))]
    for place in ("/", "/readyz", "/healthz", "/metrics", "/api/state"):
        with suppress(OSError), urlopen(f"http://127.0.0.1:{page}{place}", timeout=10) as answer:
            shown.append(answer.read().decode())
    with suppress(BlockingIOError):
        while True:
            shown.append(notify.recv(65536).decode())
    assert daemon.stop() == 0
    notify.close()
    shown += [daemon.said, *(line.decode(errors="replace") for line in arguments)]
    assert not [text[max(0, text.find(SECRET) - 200) : text.find(SECRET) + 50] for text in shown if SECRET in text]
    reasons = {m.json["reason"] for m in subscriber.on("/status") if m.payload and m.json["reason"]}
    assert any("127.0.0.1" in reason for reason in reasons), "the host and port are shown"
