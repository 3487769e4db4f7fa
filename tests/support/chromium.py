"""A headless Chromium for tests of pages: visible text, tooltips, screenshots.

It uses the DevTools protocol over two pipes (--remote-debugging-pipe): no driver, no port.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run")
_DEADLINE_S = 60
HEIGHT = 900
# The file descriptors at which Chromium expects its pipes.
_AS_3_AND_4 = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3]]  # out of the way
for number, pipe in enumerate(pipes, 3):
    os.dup2(pipe, number)
os.execv(sys.argv[3], [*sys.argv[3:], "--remote-debugging-pipe", "about:blank"])
"""


@contextmanager
def opened(page: Path, profile: Path, width: int = 1240) -> Iterator["Browser"]:
    """Skips the test if Chromium is not installed; with CI=true the test fails."""
    if CHROMIUM is None:
        if os.environ.get("CI") == "true":
            pytest.fail("needs chromium on the PATH, and CI must not skip it", pytrace=False)
        pytest.skip("needs chromium on the PATH")
    command_in, command_out = os.pipe()
    response_in, response_out = os.pipe()
    flags = [*_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{HEIGHT}"]
    process = subprocess.Popen(
        [sys.executable, "-ISc", _AS_3_AND_4, f"{command_in}", f"{response_out}", CHROMIUM, *flags],
        pass_fds=(command_in, response_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(command_in)
    os.close(response_out)
    with (
        os.fdopen(command_out, "wb", 0) as to_browser,
        os.fdopen(response_in, "rb") as from_browser,
    ):
        try:
            browser = Browser(to_browser, from_browser)
            # A window is at least 500 pixels wide, but a viewport may be narrower.
            view = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
            browser.call("Emulation.setDeviceMetricsOverride", **view)
            browser.show(page)
            yield browser
        finally:
            process.kill()
            process.wait(_DEADLINE_S)


class Browser:
    def __init__(self, to_browser: Any, from_browser: Any) -> None:
        self._to, self._from = to_browser, from_browser
        self._number, self._session = 0, ""
        self.problems: list[str] = []
        """Exceptions and log messages of the page's script, and its network requests."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        while (response := self._next()).get("id") != self._number:
            pass
        assert "error" not in response, response
        return response["result"]

    def show(self, page: Path) -> None:
        self.call("Page.navigate", url=page.as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, script: str) -> Any:
        response = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in response, response
        return response["result"].get("value")

    def visible(self, selector: str = "body") -> str:
        """The text without collapsed and hidden elements."""
        text: str = self.evaluate(f"document.querySelector({selector!r}).innerText")
        return text

    def hover(self, selector: str) -> None:
        """Move the mouse to the middle of the first matching element."""
        at = self.evaluate(
            f"(() => {{ const e = document.querySelector({selector!r});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const r = e.getBoundingClientRect();"
            "return {x: r.x + r.width / 2, y: r.y + r.height / 2}; })()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **at)

    def paint(self, scheme: str) -> None:
        """`light` or `dark`."""
        preferred = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=preferred)

    def picture(self, file: Path) -> None:
        """Write a screenshot of the whole page."""
        of = "document.documentElement.getBoundingClientRect()"
        rect = self.evaluate(f"(r => [r.x, r.y + scrollY, r.width, r.height])({of})")
        clip = dict(zip(("x", "y", "width", "height"), rect, strict=True), scale=1)
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        """The next response or event."""
        read = bytearray()
        while (byte := self._from.read(1)) not in (b"\0", b""):
            read += byte
        assert read, "chromium exited"
        message: dict[str, Any] = json.loads(read)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method", ""), message.get("params", {})
        if method in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.problems.append(json.dumps(params))
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "about:", "data:")):
                self.problems.append(url)
