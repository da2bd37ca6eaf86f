"""A real Chromium without a window, led over its DevTools protocol."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")
PATIENCE_S = 120.0
"""Seconds that a page may take for anything."""

KEYS = {"Enter": ("\r", 13), "Tab": ("\t", 9), "ArrowDown": ("", 40)}
"""Key → the text that it types, and its code on Windows."""


class Chromium:
    """One tab, and what it asked of servers and said on its console."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self.requested: list[str] = []
        """The URLs of all requests."""

        self.complaints: list[str] = []
        """Errors and warnings of the console, and exceptions that nobody caught."""

        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Have the browser do something, and return what it answers."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(PATIENCE_S))
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                answer: dict[str, Any] = message["result"]
                return answer
            self._note(message.get("method", ""), message.get("params", {}))

    def open(self, url: str) -> None:
        """Open a page, and wait until it is loaded."""
        self.call("Page.navigate", url=url)
        self.wait_for(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """Return the value of an expression in the page; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Return the value of an expression as soon as it is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not (value := self.value(expression)):
            assert time.monotonic() < deadline, (
                f"{expression} is still {value!r}: {self.value('document.body.innerText')}"
            )
            time.sleep(0.05)
        return value

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press a key of `KEYS`."""
        text, code = KEYS[key]
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def resize(self, width: int, height: int = 800) -> None:
        """Give the page the width of another device, in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def _note(self, method: str, about: dict[str, Any]) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.requested.append(about["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(about["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if about["type"] in ("error", "warning"):
                self.complaints.append(str(about["args"]))
            case "Log.entryAdded" if about["entry"]["level"] in ("error", "warning"):
                self.complaints.append(about["entry"]["text"])


@contextmanager
def chromium(folder: Path) -> Iterator[Chromium]:
    """Run a browser with a profile of its own in a folder."""
    assert PROGRAM is not None
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command = [PROGRAM, *options, f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            address = next(line for line in process.stderr if "DevTools listening on " in line).split()[-1]
            with connect(address, max_size=None) as browser:
                browser.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
                targets = json.loads(browser.recv(PATIENCE_S))["result"]["targetInfos"]
            [page] = [target["targetId"] for target in targets if target["type"] == "page"]
            base = address.partition("/devtools/")[0]
            with connect(f"{base}/devtools/page/{page}", max_size=None) as socket:
                yield Chromium(socket)
        finally:
            process.terminate()
            process.stderr.close()
