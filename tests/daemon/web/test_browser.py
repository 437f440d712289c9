"""The page in a real browser, with cameras and broker that fail and return, and without browser errors."""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.model.file import save
from edgemeta.model.tasks import Rejection
from rig.browser import Browser
from tests.daemon.conftest import colour_model, wait_for_line
from tests.daemon.web.conftest import DEADLINE, TOKEN

CONTRAST = """
const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = (rgb) => rgb.map(channel).reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
function ground(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = numbers(getComputedStyle(at).backgroundColor);
    if (colour.length < 4 || colour[3] === 1) return colour.slice(0, 3);
  }
  return [255, 255, 255];
}
const worst = {};
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || !element.checkVisibility()) continue;
  const [text, behind] = [light(numbers(getComputedStyle(element).color).slice(0, 3)), light(ground(element))];
  const ratio = (Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05);
  if (ratio < 4.5) worst[`${element.tagName} ${element.className} ${element.textContent.slice(0, 30)}`] = ratio;
}
return worst;
"""
"""WCAG's contrast of every visible text with its background; returns those below 4.5."""

DRAWN = """
const canvas = document.querySelector("canvas");
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
const colours = new Set();
for (let at = 0; at < pixels.length; at += 4) if (pixels[at + 3] > 100) colours.add(pixels.slice(at, at + 3).join());
return colours.size;
"""
"""Colours on the first chart, except faint ones."""

RIBBON = """
return import("/chart.js").then(({ draw }) => {
  const canvas = document.querySelector("canvas");
  const seen = [["red", "red"], [null, null], ["red", null]];
  const points = seen.flatMap(([label, state], part) =>
    Array.from({ length: 40 }, (_, at) => ({ label, state, score: 0.5, time_ms: 1000 * (40 * part + at) })),
  );
  const words = [];
  canvas.getContext("2d").fillText = (word) => words.push(word);
  draw(canvas, points, 120_000, ["red"], true);
  delete canvas.getContext("2d").fillText;
  return words;
});
"""
"""The words on a chart of forty seconds each of red, of what is unknown, and of red that is not certain."""

ELSEWHERE = """
const names = performance.getEntries().map((entry) => entry.name).filter((name) => name.includes("://"));
return names.filter((name) => !name.startsWith(location.origin));
"""
"""What the page loaded from any other server."""


def wait(browser: Browser, what: str, true: Callable[[], Any], timeout: float = DEADLINE) -> Any:
    """Wait until something is true, and give that: a moment later the page may show something else."""
    deadline = time.monotonic() + timeout
    while not (found := true()):
        assert time.monotonic() < deadline, f"waited for {what}; the page says {browser.text('body')[:2000]}"
        time.sleep(0.05)
    return found


def shows(browser: Browser, selector: str, text: str, timeout: float = DEADLINE) -> None:
    wait(browser, f"{selector} to say {text!r}", lambda: text in browser.text(selector), timeout)


def is_latency(text: str) -> bool:
    """Whether it is a duration with its unit; a slow machine takes milliseconds where others take microseconds."""
    return re.match(r"[\d.,]+ (µs|ms|s)", text) is not None


def test_the_page_shows_cameras_and_broker(serve: Any, look: Any, colours: Path, broker: Any) -> None:
    page = serve(
        cameras={"front": {"source": str(colours / "2.png"), "loop": True, "fps": 20}},
        mqtt={"host": "127.0.0.1", "port": broker.port},
        stats={"interval": 0.5},
    )
    browser = look(page)
    shows(browser, "#connection", "live")
    shows(browser, "h1", "test")
    shows(browser, "#running", "colour on reference")
    shows(browser, ".camera h2", "front")
    shows(browser, ".camera .status", "running")
    shows(browser, ".verdict .label", "blue")
    shows(browser, ".verdict .held", "for ")
    shows(browser, ".scores li .what", "blue")
    shows(browser, ".facts", " classified · ")
    shows(browser, "#broker-state", "connected")
    shows(browser, "#broker", f"127.0.0.1:{broker.port}")
    shows(browser, "#models", page.ask("/api/state").json["info"]["model"]["sha256"][:16])
    shows(browser, "#stages tbody", "inference")
    wait(browser, "a latency", lambda: is_latency(browser.text("#stages tbody tr:nth-child(3) td.us")))
    width = "return document.querySelector('figure img')?.naturalWidth"
    wait(browser, "the picture", lambda: browser.run(width) == 64)
    wait(browser, "the chart", lambda: browser.run(DRAWN) > 2)
    assert browser.driver.title == "test · edgemeta"
    assert browser.run(ELSEWHERE) == []
    assert browser.log() == []
    broker.stop()
    wait(browser, "the broker's absence", lambda: browser.text("#broker-state") in ("lost", "unreachable"))
    shows(browser, "#broker", "refused")
    shows(browser, "#announcer", "broker: ")


def test_what_the_model_does_not_know_is_unknown(serve: Any, look: Any, tmp_path: Path) -> None:
    """In the headline and in the ribbon of states, which tells it from a state that no label is certain of."""
    plain = colour_model()
    save(replace(plain, task=replace(plain.task, rejection=Rejection(3000))), tmp_path / "rule.safetensors")
    cv2.imwrite(str(tmp_path / "grey.png"), np.full((48, 64, 3), 90, np.uint8))
    camera = {"source": str(tmp_path / "grey.png"), "loop": True, "fps": 20}
    browser = look(serve(cameras={"wall": camera}, model=str(tmp_path / "rule.safetensors")))
    shows(browser, ".verdict .label", "unknown")
    assert browser.run("return document.querySelector('.verdict .label').hasAttribute('data-unsure')")
    assert browser.text(".scores") == ""
    texts = browser.run(RIBBON)
    assert [text for text in texts if not re.match(r"\d|now", text)] == ["red", "unknown", "not sure"]
    assert browser.log() == []


def test_frames_and_figures_are_updated(serve: Any, look: Any) -> None:
    browser = look(serve())
    source = "return document.querySelector('figure img')?.src ?? ''"
    wait(browser, "a picture", lambda: "?" in browser.run(source))
    first, facts = browser.run(source), browser.text(".facts")
    wait(browser, "another picture", lambda: browser.run(source) != first and browser.text(".facts") != facts)


@pytest.mark.parametrize(("width", "theme"), [(360, "light"), (1440, "dark")])
def test_it_fits_every_screen_with_enough_contrast(
    serve: Any, look: Any, tmp_path: Path, width: int, theme: str
) -> None:
    """A camera that runs, one that is away, and a name as long as names may be."""
    gone = {"source": str(tmp_path / ("a-long-name-without-any-blank" * 5 + ".png"))}
    page = serve(cameras={"front": {"source": "synthetic://"}, "g" * 64: gone}, stats={"interval": 0.3})
    browser = look(page, width, theme)
    shows(browser, ".camera:nth-child(2) .status", "failed")
    shows(browser, ".camera:nth-child(2) .instead", "does not exist, expected an image")
    shows(browser, ".verdict .label", "")
    wait(browser, "the stages", lambda: is_latency(browser.text("#stages tbody td.us")))
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert browser.run(CONTRAST) == {}
    right = "return Math.max(...[...document.querySelectorAll('.card')].map((c) => c.getBoundingClientRect().right))"
    assert browser.run(right) <= width


def test_without_frames(serve: Any, look: Any) -> None:
    browser = look(serve(web={"show_frames": False}))
    shows(browser, ".instead", "Frames are not shown (web.show_frames: false).")
    wait(browser, "a label", lambda: browser.text(".scores li .how").endswith("%"))
    assert browser.run("return document.querySelector('figure img').getAttribute('src')") is None
    assert browser.log() == []


@pytest.mark.gate("4 s: two services, and the page between them")
def test_a_service_that_stops_and_returns(write_config: Any, run_daemon: Any, look: Any, free_port: Any) -> None:
    port = free_port()
    config = write_config(web={"enabled": True, "port": port}, mqtt={"host": "127.0.0.1", "port": free_port()})
    daemon = run_daemon(config)
    wait_for_line(daemon, "page at http://")
    browser = look(port)
    shows(browser, "#connection", "live")
    shows(browser, "#service", "boot")
    boot = browser.text("#service .code:last-child")
    daemon.process.kill()
    daemon.process.wait()
    shows(browser, "#connection", "connection lost, reconnecting")
    assert browser.run("return document.body.classList.contains('lost')")
    wait_for_line(run_daemon(config), "page at http://")
    shows(browser, "#connection", "live")
    wait(browser, "the new service", lambda: browser.text("#service .code:last-child") not in ("", boot))
    assert not browser.run("return document.body.classList.contains('lost')")


TRIES = "return performance.getEntriesByName(location.origin + '/api/state').length"


def test_signing_in_by_keyboard(serve: Any, look: Any, caplog: pytest.LogCaptureFixture) -> None:
    from selenium.webdriver.common.keys import Keys

    page = serve(web={"token": TOKEN})
    browser = look(page)
    assert browser.run(CONTRAST) == {}
    browser.driver.switch_to.active_element.send_keys("not the token", Keys.ENTER)
    shows(browser, "html[data-wrong='yes'] #wrong", "Wrong token.")
    browser.driver.switch_to.active_element.send_keys(TOKEN, Keys.ENTER)
    shows(browser, "#connection", "live")
    wait(browser, "a label", lambda: browser.text(".scores li .how").endswith("%"))
    assert browser.driver.current_url == f"http://127.0.0.1:{page.port}/"
    (cookie,) = browser.driver.get_cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert TOKEN not in caplog.text


def test_a_hidden_page_sends_no_requests(serve: Any, look: Any) -> None:
    page = serve()
    browser = look(page)
    shows(browser, "#connection", "live")
    server: Any = page.service.parts.page
    assert server._streams == 1
    browser.driver.switch_to.new_window("tab")  # the page's own tab is hidden now
    try:
        wait(browser, "the events to end", lambda: server._streams == 0)
    finally:
        browser.driver.close()
        browser.driver.switch_to.window(browser.driver.window_handles[0])
    wait(browser, "the events to begin again", lambda: server._streams == 1)


def test_a_failed_camera_shows_its_last_frame_and_the_reason(serve: Any, look: Any, colours: Path) -> None:
    page = serve(cameras={"front": {"source": str(colours / "2.png"), "loop": True, "fps": 20, "frame_timeout": 1}})
    browser = look(page)
    shows(browser, ".verdict .held", "for ")
    wait(browser, "the picture", lambda: browser.run("return document.querySelector('figure img')?.naturalWidth") == 64)
    (colours / "2.png").unlink()
    shows(browser, ".camera .status", "failed")
    shows(browser, ".instead", "2.png does not exist, expected an image")
    shows(browser, ".verdict .label", "blue")
    shows(browser, ".verdict .held", " s ago")
    shows(browser, "figcaption", " s ago")
    assert browser.run("return document.querySelector('.camera').hasAttribute('data-old')")
    shows(browser, "#announcer", "camera front: failed: ")
    assert browser.run(CONTRAST) == {}


STANDING = """
const done = arguments[arguments.length - 1];
import("/health.js").then(({ problems }) => done(problems(arguments[0])));
"""
"""Problems that the page's own module finds in a state, with their tones."""


@pytest.mark.parametrize("state", [*(each.value for each in BrokerState), "a_state_of_a_later_version"])
def test_only_a_connected_broker_is_good(serve: Any, look: Any, state: str) -> None:
    page = serve()
    reported = page.state_with_frames()
    reported["broker"] |= {"state": state, "reason": None if state == "connecting" else "the reason"}
    reported["cameras"]["front"] |= {"status": "running", "words": "running"}
    found = look(page).driver.execute_async_script(STANDING, reported)
    if state == "connected":
        assert found == []
        return
    (problem,) = found
    assert problem["short"] == f"broker {state.replace('_', ' ')}"
    assert (problem["tone"], problem["text"]) == (("warn", "") if state == "connecting" else ("bad", "the reason"))


def test_a_refused_model_is_a_problem(serve: Any, look: Any) -> None:
    page = serve()
    reported = page.state_with_frames()
    reported["broker"] |= {"state": "connected", "reason": None}
    reported["cameras"]["front"] |= {"status": "running", "words": "running"}
    reported["info"]["model_refused"] = "config.yaml:1: model: found nothing"
    assert look(page).driver.execute_async_script(STANDING, reported) == [
        {
            "short": "model refused",
            "text": "model refused, another one is in use: config.yaml:1: model: found nothing",
            "tone": "warn",
        }
    ]


def tone(browser: Browser, selector: str) -> str:
    return str(browser.run("return document.querySelector(arguments[0])?.dataset.tone", selector))


def test_the_header_is_green_only_while_cameras_and_broker_work(
    serve: Any, look: Any, broker: Any, colours: Path
) -> None:
    page = serve(
        cameras={"front": {"source": str(colours / "2.png"), "loop": True, "fps": 20, "frame_timeout": 1}},
        mqtt={"host": "127.0.0.1", "port": broker.port, "retry": {"initial_delay": 0.1, "max_delay": 0.2}},
    )
    browser = look(page, 390)
    wait(browser, "all well", lambda: browser.text("#connection") == "live")
    assert tone(browser, "#connection") == "good"
    assert not browser.run("return document.querySelector('#trouble').checkVisibility()")
    broker.stop()
    shows(browser, "#connection", "live, broker unreachable")
    assert tone(browser, "#connection") == tone(browser, "#broker-state") == "bad"
    shows(browser, "#trouble", f"broker 127.0.0.1:{broker.port} cannot be reached")
    assert browser.run("return document.querySelector('#trouble').checkVisibility()")
    (colours / "2.png").unlink()
    shows(browser, "#connection", "live, broker unreachable, camera front failed")
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    broker.start()
    wait(browser, "the broker", lambda: browser.text("#connection") == "live, camera front failed")
    assert tone(browser, "#connection") == "bad"
    assert browser.text("#trouble") == ""


@pytest.mark.parametrize(("size", "header"), [(1, "live, messages in memory only"), (0, "live")])
def test_messages_that_cannot_be_written_to_disk(
    serve: Any, look: Any, broker: Any, tmp_path: Path, size: int, header: str
) -> None:
    """A folder is in the place of the outbox file; with `max_disk_mb: 0` the config needs no file."""
    (tmp_path / "state" / "outbox-test.sqlite3").mkdir(parents=True)
    page = serve(mqtt={"host": "127.0.0.1", "port": broker.port, "outbox": {"max_disk_mb": size}})
    page.wait("/readyz", lambda answer: answer.status == 200)
    browser = look(page)
    wait(browser, "the header", lambda: browser.text("#connection") == header)
    assert tone(browser, "#connection") == ("warn" if size else "good")
    assert ("outbox-test.sqlite3" in browser.text("#trouble")) == bool(size)


@pytest.mark.gate("7 s: until data counts as outdated")
def test_without_the_service_all_data_is_marked_as_outdated(
    write_config: Any, run_daemon: Any, look: Any, free_port: Any, broker: Any
) -> None:
    port = free_port()
    config = write_config(
        cameras={"front": {"source": "synthetic://", "fps": 5}},
        web={"enabled": True, "port": port},
        mqtt={"host": "127.0.0.1", "port": broker.port},
    )
    daemon = run_daemon(config)
    wait_for_line(daemon, "page at http://")
    browser = look(port)
    wait(browser, "all well", lambda: browser.text("#connection") == "live")
    daemon.process.kill()
    daemon.process.wait()
    shows(browser, "#connection", "connection lost, reconnecting")
    assert tone(browser, "#connection") == "bad"
    for selector, was in ((".camera .status", "was running"), ("#broker-state", "was connected")):
        assert (browser.text(selector), tone(browser, selector)) == (was, "idle")
    shows(browser, "#trouble", "The data below may be outdated.")
    wait(
        browser,
        "another try",
        lambda: browser.run(TRIES) > 1,
    )
    assert browser.text(".camera .status") == "was running", "said once"
    wait_for_line(run_daemon(config), "page at http://")
    wait(browser, "all well", lambda: browser.text("#connection") == "live")
    shows(browser, ".camera .status", "running")
    wait(
        browser,
        "its pills",
        lambda: (browser.text(".camera .status"), browser.text("#broker-state")) == ("running", "connected"),
    )
    assert browser.text("#trouble") == ""


WRITTEN = """
const fillText = CanvasRenderingContext2D.prototype.fillText;
window.written = new Set();
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
  window.written.add(text);
  fillText.call(this, text, ...place);
};
"""
"""Records the text on canvases."""


@pytest.mark.gate("23 s: the strip is drawn after so many")
def test_while_the_state_is_null_strip_and_label_show_no_label(
    serve: Any, look: Any, browser: Browser, tmp_path: Path
) -> None:
    """A grey frame: red, green and blue score a third each; then a blue one."""
    frame = tmp_path / "frame.png"
    cv2.imwrite(str(frame), np.full((48, 64, 3), 128, np.uint8))
    script = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WRITTEN})
    try:
        look(
            serve(
                cameras={"front": {"source": str(frame), "loop": True, "fps": 20}},
                state={"enter_score": 0.9, "leave_score": 0.9},
            )
        )
        wait(browser, "scores", lambda: browser.text(".scores .how") == "33.3 %")
        wait(browser, "a strip", lambda: "not sure" in browser.run("return [...window.written]"))
        assert browser.text(".verdict .label") == "not sure"
        assert not {"red", "green", "blue"} & set(browser.run("return [...window.written]"))
        aside = tmp_path / "blue.png"
        cv2.imwrite(str(aside), np.full((48, 64, 3), (255, 0, 0), np.uint8))
        aside.rename(frame)
        shows(browser, ".verdict .label", "blue")
        wait(browser, "the strip", lambda: "blue" in browser.run("return [...window.written]"))
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


@pytest.mark.parametrize("width", [390, 1280])
def test_latency_bars_are_logarithmic_and_say_so(serve: Any, look: Any, width: int) -> None:
    browser = look(serve(stats={"interval": 0.3}), width)
    wait(browser, "a latency", lambda: is_latency(browser.text("#stages tbody tr:nth-child(3) td.us")))
    scale = "[...document.querySelectorAll('#stages .scale span')].filter((s) => s.checkVisibility())"
    assert browser.run(f"return {scale}.map((s) => s.textContent)") == ["1 µs", "1 ms", "1 s"]
    shows(browser, "#stages-note", "logarithmic scale")
    assert browser.run("return document.querySelector('#stages-note').checkVisibility()")
    lengths = """
    const box = (element) => element.getBoundingClientRect();
    const scale = box(document.querySelector('#stages .scale'));
    return [...document.querySelectorAll('#stages tbody tr')].map((row) => {
      const bar = box(row.querySelector('.bar'));
      return [bar.left - scale.left, bar.right - scale.right];
    });
    """
    for ends in browser.run(lengths):
        assert ends == pytest.approx([0, 0], abs=1), "a bar's two ends are those of the scale"
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
