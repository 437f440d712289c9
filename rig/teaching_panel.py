"""The live page's panel for collecting and teaching, in a browser: what a hand would do there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rig.browser import Browser
from rig.waiting import wait_until

COUNTS = "return [...document.querySelectorAll('#teach-counts button')].map((each) => each.textContent)"
LOADED = """
const images = [...document.querySelectorAll("#teach-thumbs img")];
return images.length > 0 && images.every((image) => image.naturalWidth > 0) ? images.length : 0;
"""


class TeachingPanel:
    """The panel of the page in a browser. Its methods raise RigError where something does not come about."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def open(self, port: int, token: str) -> None:
        """Open the page, sign in, and open the panel. The browser has no cookies then but this one."""
        self.browser.driver.get("about:blank")
        self.browser.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.browser.driver.get(f"http://127.0.0.1:{port}/")
        self.browser.driver.find_element("id", "token").send_keys(token, "\n")
        wait_until(lambda: "live" in self.browser.text("#connection"), "the page")
        self.click("#teach summary")
        wait_until(lambda: not self.browser.run("return document.querySelector('#teach-panel').hidden"), "the panel")
        self.browser.log()  # the sign-in's 401

    def click(self, selector: str) -> None:
        """Click the first element of a selector."""
        self.browser.driver.find_element("css selector", selector).click()

    @contextmanager
    def held(self, label: str) -> Iterator[None]:
        """Type a label, and hold the button meanwhile."""
        from selenium.webdriver.common.action_chains import ActionChains

        field = self.browser.driver.find_element("id", "teach-label")
        field.clear()
        field.send_keys(label)
        button = self.browser.driver.find_element("id", "teach-hold")
        ActionChains(self.browser.driver).click_and_hold(button).perform()
        try:
            yield
        finally:
            ActionChains(self.browser.driver).release().perform()

    def hold(self, label: str, until: Callable[[], bool]) -> None:
        """Hold the button until something is so."""
        with self.held(label):
            wait_until(until, f"pictures of {label}; the page says {self.problem!r}")

    def collect(self, label: str, number: int) -> None:
        """Hold the button until the panel shows so many pictures, and until nothing is added any more."""
        self.hold(label, lambda: self.count(label) >= number)
        wait_until(lambda: ":" not in self.browser.text("#teach-hold-note"), "the end of collecting")

    def count(self, label: str) -> int:
        """Pictures of a label, as the panel shows them."""
        texts = [text.rpartition(": ") for text in self.browser.run(COUNTS)]
        return next((int(number.replace(",", "")) for name, _, number in texts if name == label), 0)

    @property
    def thumbnails(self) -> int:
        """Thumbnails that are shown; 0 until all of them are loaded."""
        return int(self.browser.run(LOADED))

    @property
    def problem(self) -> str:
        """What the panel complains about; empty if nothing."""
        return self.browser.text("#teach-problem")
