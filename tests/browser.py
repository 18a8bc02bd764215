"""A headless Chromium, driven by its own protocol (Chrome DevTools) over a pipe: nothing is installed but the browser.

Debian and Ubuntu: `apt-get install chromium-headless-shell`, or `chromium`. Chrome will do; CHROMIUM names another.
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--disable-dev-shm-usage",
           "--disable-background-networking", "--no-first-run", "--hide-scrollbars")  # fmt: skip


def find_browser() -> str | None:
    """Its command, or none."""
    return next(filter(None, map(shutil.which, filter(None, (os.environ.get("CHROMIUM"), *NAMES)))), None)


class Browser:
    """One page. `problems` are console errors and exceptions, `requests` the addresses that the page asked for."""

    def __init__(self, command: str) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.number = 0
        self.session: str | None = None
        self.folder = tempfile.mkdtemp()
        to_read, self.to = os.pipe()
        self.answers, to_write = os.pipe()

        def pipes() -> None:  # the browser reads from 3 and writes to 4
            for old, new in [(fcntl.fcntl(old, fcntl.F_DUPFD, 10), new) for old, new in ((to_read, 3), (to_write, 4))]:
                os.dup2(old, new)

        options = [*OPTIONS, f"--user-data-dir={self.folder}"]
        self.process = subprocess.Popen(
            [command, *options, "about:blank"], preexec_fn=pipes, close_fds=False, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self.unread = b""
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.answers)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command and returns its answer; notes what the page reports meanwhile."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.number:
            self._note(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.unread:
            block = os.read(self.answers, 1 << 20)
            assert block, "the browser has ended"
            self.unread += block
        message, _, self.unread = self.unread.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown" or (
            method == "Runtime.consoleAPICalled" and params["type"] == "error"
        ):
            self.problems.append(json.dumps(params))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])

    def open(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False, mobile: bool = False) -> None:
        """Shows a file, whose script says when it is done, in a window of that size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.documentElement && document.documentElement.dataset.ready === 'yes'")

    def wait(self, condition: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not self.evaluate(condition):
            assert time.monotonic() < deadline, f"{condition} is not so after {seconds} s: {self.problems}"
            time.sleep(0.02)

    def evaluate(self, expression: str) -> Any:
        """Value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def point(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, *keys: str) -> None:
        for key in keys:
            for kind in ("keyDown", "keyUp"):
                text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
                codes = {"Escape": 27, "Enter": 13, "Tab": 9}
                self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                          windowsVirtualKeyCode=codes.get(key, 0), **text)  # fmt: skip

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
