"""A headless Chromium, driven through ChromeDriver."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
"""No background network traffic of Chromium; no sandbox and little shared memory, as root in a container."""


def missing() -> str | None:
    """Return what this machine lacks to drive a browser; None if nothing."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed (extra `test`)"
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        return "no Chromium with its driver (Debian packages chromium, chromium-driver)"
    return None


class Browser:
    """One browser window. driver: Selenium's."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def size(self, width: int, height: int, scale: float = 1.0) -> None:
        """Set the screen size in CSS pixels; narrow ones are phones."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def theme(self, name: str) -> None:
        """Set the preferred colour scheme, `light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": name}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def run(self, script: str, *values: Any) -> Any:
        """Run JavaScript in the page and return what it returns."""
        return self.driver.execute_script(script, *values)

    def text(self, selector: str) -> str:
        """Return the text of the first element of a selector; empty without one."""
        return str(self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)).strip()

    def log(self) -> list[str]:
        """Return the browser's warnings and errors since the last call."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser with an empty profile."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield Browser(driver)
        finally:
            driver.quit()
