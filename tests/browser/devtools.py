"""Debian's chromium, driven through a pipe by its own protocol: nothing else to install.

``--remote-debugging-pipe`` speaks JSON, ended by zero bytes, on the file descriptors 3
(in) and 4 (out). No port is opened and no driver is needed.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

PATIENCE = 240.0
"""Seconds in which whatever is waited for happens, on any machine that is busy."""
AXE = Path(__file__).with_name("axe.min.js")
"""Put there by ``install.sh``; not kept in the repository."""


def chromium() -> str | None:
    """Return where the browser is, if it is there."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One headless browser."""

    def __init__(self, profile: Path) -> None:
        told, self._to = os.pipe()
        self._from, said = os.pipe()
        self._process = subprocess.Popen(  # noqa: S603 - a browser that we looked for
            [
                *("bash", "-c", f'exec "$0" "$@" 3<&{told} 4>&{said}'),
                *(chromium(), "--headless", "--no-sandbox", "--disable-gpu"),
                *("--remote-debugging-pipe", f"--user-data-dir={profile}"),
                *("--hide-scrollbars", "--disable-dev-shm-usage", "about:blank"),
            ],
            pass_fds=(told, said),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(told)
        os.close(said)
        self._rest, self._number = b"", 0
        self.events: list[dict] = []

    def ask(self, method: str, session: str | None = None, **parameters) -> dict:
        """Send a command and return its answer; keep the events that come meanwhile."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for found in self._messages(until):
                if found.get("id") == self._number:
                    if "error" in found:
                        raise RuntimeError(f"{method}: {found['error']}")
                    return found["result"]
                self.events.append(found)
        raise TimeoutError(method)

    def _messages(self, until: float):
        if b"\0" not in self._rest:
            ready, _, _ = select.select(
                [self._from], [], [], max(until - time.monotonic(), 0)
            )
            if ready:
                self._rest += os.read(self._from, 1 << 20)
        while b"\0" in self._rest:
            one, self._rest = self._rest.split(b"\0", 1)
            yield json.loads(one)

    def open(self, path: Path | str, **pilot) -> Tab:
        """Open a file or an address in a new tab."""
        return Tab(self, path, **pilot)

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(PATIENCE)
        os.close(self._to)
        os.close(self._from)


class Tab:
    """One page, as a reader sees it."""

    def __init__(
        self,
        browser: Browser,
        path: Path | str,
        *,
        width: int = 1200,
        height: int = 900,
        phone: bool = False,
        dark: bool = False,
        paper: bool = False,
        scripts: bool = True,
    ) -> None:
        self._browser = browser
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=390 if phone else width,
            height=844 if phone else height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        media = "print" if paper else "screen"
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])
        if not scripts:
            self.ask("Emulation.setScriptExecutionDisabled", value=True)
        self._since = len(browser.events)
        url = path if isinstance(path, str) else path.resolve().as_uri()
        self.ask("Page.navigate", url=url)
        until = time.monotonic() + PATIENCE
        while not self._seen("Page.loadEventFired"):
            if time.monotonic() > until:
                raise TimeoutError(url)
            browser.ask("Browser.getVersion")  # hears what happened meanwhile
            time.sleep(0.02)

    def ask(self, method: str, **parameters) -> dict:
        """Send a command to this tab."""
        return self._browser.ask(method, self._session, **parameters)

    def _events(self) -> list[dict]:
        mine = self._browser.events[self._since :]
        return [e for e in mine if e.get("sessionId") == self._session]

    def _seen(self, method: str) -> bool:
        return any(e["method"] == method for e in self._events())

    def js(self, expression: str):
        """Evaluate an expression, a promise too, and return its plain value."""
        found = self.ask(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"])[:400])
        return found["result"].get("value")

    def press(self, key: str, *, text: str = "") -> None:
        """Press a key, as a keyboard does."""
        codes = {"Tab": 9, "ArrowRight": 39, "ArrowLeft": 37, "Enter": 13, ".": 190}
        code = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **more,
            )

    def complaints(self) -> list[str]:
        """Return errors of the console, of scripts and of the policy."""
        found = []
        for event in self._events():
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(event["params"]["exceptionDetails"])[:300])
            if event["method"] == "Runtime.consoleAPICalled":
                found.append(str(event["params"])[:300])
            if event["method"] == "Log.entryAdded":
                found.append(event["params"]["entry"]["text"][:300])
        return found

    def requests(self) -> list[str]:
        """Return every address that was asked for."""
        return [
            e["params"]["request"]["url"]
            for e in self._events()
            if e["method"] == "Network.requestWillBeSent"
        ]

    def picture(self, *, whole: bool = True) -> bytes:
        """Return a picture of the page, as PNG."""
        found = self.ask(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole
        )
        return base64.b64decode(found["data"])
