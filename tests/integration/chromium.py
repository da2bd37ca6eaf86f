"""The machine's Chromium without a window, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser with a profile of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        yield browser
        browser.close()


def serious(page: Page) -> list[tuple[str, Any]]:
    """Return what axe-core finds serious, each with the first place where it is."""
    found = Axe().run(page).response["violations"]
    return [(each["id"], each["nodes"][0]["target"]) for each in found if each["impact"] in ("serious", "critical")]
