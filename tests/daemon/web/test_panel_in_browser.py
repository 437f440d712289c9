"""The panel in a real browser: hold, look, throw away, teach, use it; the new labels are in the messages then."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.collect.collector import Collector
from edgemeta.daemon.web.panel import PER_PAGE
from rig.browser import Browser
from rig.gate_camera import STATES, GateCamera
from rig.teaching_panel import TeachingPanel
from rig.waiting import wait_until
from tests.daemon.conftest import broker_keys, wait_for_line
from tests.daemon.web.conftest import TOKEN, Page
from tests.daemon.web.test_browser import CONTRAST, ELSEWHERE, shows, wait

CLOSED, OPEN = STATES


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[GateCamera]:
    camera = GateCamera(tmp_path / "gate.png")
    camera.start()
    yield camera
    camera.stop()


def open_panel(browser: Browser, port: int, width: int = 1280, theme: str = "light") -> TeachingPanel:
    """Sign in and open the panel."""
    browser.size(width, 900)
    browser.theme(theme)
    panel = TeachingPanel(browser)
    panel.open(port, TOKEN)
    return panel


SHORT_HOLD = """
const button = document.querySelector("#teach-hold");
button.dispatchEvent(new KeyboardEvent("keydown", { key: " " }));
setTimeout(() => button.dispatchEvent(new KeyboardEvent("keyup", { key: " " })), 300);
"""

KEYS: dict[str, Any] = {"web": {"token": TOKEN}, "collect": {"max_fps": 10}}


@pytest.mark.gate("6 s: a browser")
def test_pictures_are_collected_while_the_button_is_held_and_thrown_away(
    serve: Callable[..., Page], browser: Browser, gate: GateCamera
) -> None:
    page = serve(**KEYS, cameras={"front": gate.keys})
    panel = open_panel(browser, page.port)
    assert browser.run("return document.querySelector('#teach-hold').disabled")
    panel.collect(OPEN, 5)
    before = panel.count(OPEN)
    wait(browser, "the thumbnails", lambda: panel.thumbnails == min(before, PER_PAGE))
    collector = page.service.parts.collection.collector  # type: ignore[union-attr]
    assert not collector.is_collecting("front")
    pictures = browser.driver.find_elements("css selector", "#teach-thumbs button")
    pictures[0].click()
    pictures[1].click()
    pictures[2].click()
    pictures[2].click()
    assert browser.text("#teach-discard") == "Throw away 2"
    panel.click("#teach-discard")
    wait(browser, "two fewer", lambda: panel.count(OPEN) == before - 2 == panel.thumbnails)
    assert browser.text("#teach-discard") == "Throw away"
    assert len(collector.folders["front"].pictures(OPEN)) == before - 2
    panel.click("#teach-rename")
    question = browser.driver.switch_to.alert
    question.send_keys("ajar")
    question.accept()
    wait(browser, "the new name", lambda: panel.count("ajar") == before - 2)
    assert collector.folders["front"].labels() == ["ajar"]
    assert browser.run(ELSEWHERE) == []
    assert browser.log() == []


@pytest.mark.gate("5 s: a browser")
def test_the_button_by_keyboard_and_a_page_that_goes(
    serve: Callable[..., Page], browser: Browser, gate: GateCamera, monkeypatch: pytest.MonkeyPatch
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    page = serve(**KEYS, cameras={"front": gate.keys})
    collector = page.service.parts.collection.collector  # type: ignore[union-attr]
    panel = open_panel(browser, page.port)
    field = browser.driver.find_element("id", "teach-label")
    field.send_keys(OPEN, "\t")
    with monkeypatch.context() as held:
        held.setattr(Collector.hold, "__defaults__", (True, 3600.0))  # it ends because the key is let go
        ActionChains(browser.driver).key_down(" ").perform()
        wait(browser, "pictures", lambda: panel.count(OPEN) >= 2)
        ActionChains(browser.driver).key_up(" ").perform()
        wait(browser, "the end", lambda: not collector.is_collecting("front"))
    button = browser.driver.find_element("id", "teach-hold")
    ActionChains(browser.driver).click_and_hold(button).perform()
    wait(browser, "more", lambda: collector.is_collecting("front"))
    browser.driver.get("about:blank")
    ActionChains(browser.driver).release().perform()
    wait(browser, "the end", lambda: not collector.is_collecting("front"))


@pytest.mark.gate("3 s: a browser")
def test_the_pictures_of_a_short_hold_are_shown(serve: Callable[..., Page], browser: Browser) -> None:
    """It ends before the button's request is renewed; the first answer came before the first picture."""
    page = serve(**KEYS, cameras={"front": {"source": "synthetic://"}})
    panel = open_panel(browser, page.port)
    browser.driver.find_element("id", "teach-label").send_keys(OPEN)
    browser.run(SHORT_HOLD)
    wait(browser, "a picture", lambda: panel.count(OPEN) >= 1)
    wait(browser, "its thumbnail", lambda: panel.thumbnails >= 1)


@pytest.mark.gate("4 s: a browser")
@pytest.mark.parametrize(("width", "theme"), [(360, "light"), (1440, "dark")])
def test_it_fits_every_screen_with_enough_contrast(
    serve: Callable[..., Page], browser: Browser, gate: GateCamera, width: int, theme: str
) -> None:
    page = serve(**KEYS, cameras={"front": gate.keys, "back": {"source": "synthetic://"}})
    panel = open_panel(browser, page.port, width, theme)
    panel.collect("x" * 60, 3)
    wait(browser, "thumbnails", lambda: panel.thumbnails >= 3)
    panel.click("#teach-thumbs button")
    panel.click("#teach-start")
    shows(browser, "#teach-problem", "found pictures of 1 label, expected at least 2")
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert browser.run(CONTRAST) == {}
    wide = "return [...document.querySelectorAll('#teach *')].filter((e) => e.checkVisibility() && "
    assert browser.run(f"{wide} e.getBoundingClientRect().right > innerWidth).map((e) => e.id)") == []


@pytest.mark.gate("3 s: a browser")
def test_a_refused_label_is_told_and_another_browsers_collecting_too(
    serve: Callable[..., Page], browser: Browser, gate: GateCamera
) -> None:
    page = serve(**KEYS, cameras={"front": gate.keys})
    collection = page.service.parts.collection
    assert collection is not None
    panel = open_panel(browser, page.port)
    panel.hold("../x", lambda: "expected 1 to 60 printable" in panel.problem)
    collection.collector.hold("front", CLOSED, seconds=60)
    panel.hold(OPEN, lambda: f"camera front is collecting '{CLOSED}' just now" in panel.problem)
    collection.collector.release("front", CLOSED)
    panel.collect(OPEN, 2)
    assert panel.problem == ""


@pytest.mark.gate("2 s: a browser")
def test_without_a_token_the_panel_says_what_it_needs(
    serve: Callable[..., Page], browser: Browser, gate: GateCamera
) -> None:
    page = serve(cameras={"front": gate.keys})
    browser.driver.get("about:blank")
    browser.log()
    browser.driver.get(f"http://127.0.0.1:{page.port}/")
    shows(browser, "#connection", "live")
    TeachingPanel(browser).click("#teach summary")
    shows(browser, "#teach-unavailable", "need an access token: set web.token_file in the config")
    assert browser.run("return document.querySelector('#teach-panel').hidden")
    assert browser.log() == []


@pytest.mark.gate("40 s: a service, a broker, a browser, and a network is taught")
def test_the_whole_way_from_the_button_to_new_labels_in_messages(
    write_config: Any, run_daemon: Any, browser: Browser, gate: GateCamera, broker: Any, subscriber: Any, free_port: Any
) -> None:
    """What docs/ten-minutes.md describes, with the shipped network before it and the taught one after it."""
    port = free_port()
    config = write_config(
        model="resnet8-cifar10",
        backend={"name": "auto"},
        cameras={"front": gate.keys},
        web={"enabled": True, "port": port, "token": TOKEN},
        collect={"max_fps": 10},
        swap={"shadow_frames": 5, "trial_frames": 5},
        mqtt=broker_keys(broker),
    )
    daemon = run_daemon(config)
    wait_for_line(daemon, "page at http://")
    panel = open_panel(browser, port)
    for state in STATES:
        gate.state = state
        wait_for_pictures(gate, 2)
        panel.collect(state, 24)
    wait(browser, "the thumbnails", lambda: panel.thumbnails == PER_PAGE)
    before = panel.count(OPEN)
    panel.click("#teach-thumbs button")
    panel.click("#teach-discard")
    wait(browser, "one fewer", lambda: panel.count(OPEN) == before - 1)
    panel.click("#teach-start")
    shows(browser, "#teach-result", "Teaching, ")
    shows(browser, "#teach-result", f"of {before - 1 + panel.count(CLOSED)} pictures held out", timeout=300)
    assert float(browser.text("#teach-result").partition(" %")[0]) >= 97
    panel.click("#teach-use")
    shows(browser, "#teach-used", "In use.")
    shows(browser, "#teach-line code", "cameras.front.model: ")
    shows(browser, "#models", "front-1")
    for state in STATES:
        gate.state = state
        subscriber.wait_for("front/state", lambda message, state=state: message.json["state"] == state)
    both = set(STATES)  # a single frame may be rejected, and has no labels
    subscriber.wait_for("front/frame", lambda message: {label["label"] for label in message.json["labels"]} == both)
    assert subscriber.wait_for("/swap", lambda message: message.json["result"] == "swapped")
    assert browser.run(ELSEWHERE) == []
    assert browser.log() == []


def wait_for_pictures(gate: GateCamera, number: int) -> None:
    """Wait until the camera shows its state in so many pictures."""
    first = gate.number
    wait_until(lambda: gate.number >= first + number + 1, "pictures of the gate")
