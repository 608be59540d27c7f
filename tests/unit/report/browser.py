"""Chromium without a window, driven over a pipe (its DevTools protocol): no package is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_S = 120
# Chromium reads commands from file 3 and answers on file 4.
_START = (
    "import fcntl, os, sys; "
    "a, b = (fcntl.fcntl(int(one), fcntl.F_DUPFD, 10) for one in sys.argv[1:3]); "
    "os.dup2(a, 3); os.dup2(b, 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def find() -> str | None:
    """The path of a Chromium, None where none is installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page in a browser of its own. Use as a context manager."""

    def __init__(self, program: str, profile: Path) -> None:
        self.events: list[dict[str, Any]] = []
        self._last, self._session = 0, ""
        theirs, self._commands = os.pipe()
        self._answers, other = os.pipe()
        flags = ["--headless", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        flags += ["--no-first-run", "--disable-gpu", "--disable-dev-shm-usage"]
        flags += ["--no-sandbox"] if os.geteuid() == 0 else []
        command = [sys.executable, "-c", _START, str(theirs), str(other), program, *flags]
        self._process = subprocess.Popen(
            command, pass_fds=(theirs, other), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        os.close(theirs)
        os.close(other)
        self._left = b""

    def __enter__(self) -> Browser:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *exception: object) -> None:
        self._session = ""
        try:
            self.call("Browser.close")  # its helpers end with it, and leave the profile alone
            self._process.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command's result; events that came meanwhile are kept."""
        self._last += 1
        sent = {"id": self._last, "method": method, "params": params}
        if self._session:
            sent["sessionId"] = self._session
        os.write(self._commands, json.dumps(sent).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._last:
                assert "error" not in found, found["error"]
                return dict(found["result"])
            self.events.append(found)

    def open(self, path: Path) -> None:
        """Load a file and wait until it is there."""
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """A key down and up, as a keyboard sends it."""
        text = {"Enter": "\r", " ": " "}.get(key)
        typed = {"text": text} if text else {}
        same = {"key": key, "code": {" ": "Space"}.get(key, key), "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **same, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **same)

    def view(self, width: int, height: int = 900, scheme: str = "light") -> None:
        """Set the window's size and the colours that the reader's system prefers."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def picture(self, path: Path) -> None:
        """The whole page as PNG."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def complaints(self) -> list[str]:
        """Errors and refusals (of the Content-Security-Policy too) since the page was opened."""
        self.run("0")  # what was said before has come by now
        said = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                said.append(json.dumps(event["params"]["exceptionDetails"]))
            elif event.get("method") == "Log.entryAdded":
                said.append(event["params"]["entry"]["text"])
        return said

    def loaded(self) -> list[str]:
        """Every address asked for since the page was opened, but those that are data."""
        asked = [e["params"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        urls = [str(one["request"]["url"]) for one in asked]
        return [url for url in urls if not url.startswith("data:")]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            assert select.select([self._answers], [], [], PATIENCE_S)[0], "the browser is silent"
            piece = os.read(self._answers, 1 << 16)
            assert piece, "the browser is gone"
            self._left += piece
        message, _, self._left = self._left.partition(b"\0")
        return dict(json.loads(message))
