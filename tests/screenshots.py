"""`make screenshots`: pictures of the report's page and of the search page for README.md, from the demo's results."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

from tests.integration.chromium import PROGRAM, chromium
from tests.integration.jobs import REPOSITORY, environment

DOCS = REPOSITORY / "docs"
REPORT = REPOSITORY / "results" / "demo" / "index.html"
SYSTEM = "hybrid+hyde"
"""A system of the demo that shows most steps: texts, two retrievers, fusion."""

WIDTH, HEIGHT = 1280, 1000
"""The pictures' size in pixels."""

MOST_BYTES = 300_000
PATIENCE_MS = 120_000


@contextmanager
def search_page() -> Iterator[str]:
    """Serve one system on one task of the demo, and give the address of the page."""
    r2med = str(Path(sys.executable).parent / "r2med")
    command = [r2med, "serve", "jobs/full_benchmark.yaml", "--system", SYSTEM, "--task", "Demo-Posts", "--port", "0"]
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment(), text=True, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+/", process.stdout.readline())
            assert found, "`r2med serve` ended before it had an address; its log above says why"
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)


def ask(page: Page, url: str) -> None:
    """Ask the first question that the search page suggests, and wait for all steps."""
    page.goto(url)
    page.locator("#suggestions button").first.click()
    page.locator("#question").press("Enter")
    page.locator("#status", has_text=re.compile("^Done")).wait_for()


def take(page: Page, name: str) -> None:
    """Keep what a page shows.

    Raises:
        SystemExit: the picture is too large for a README.
    """
    path = DOCS / name
    size = len(page.screenshot(path=path))
    if size > MOST_BYTES:
        sys.exit(f"{path} has {size:,} bytes, and {MOST_BYTES:,} is the limit: make the picture smaller")


def main() -> None:
    """Write docs/report_page.png and docs/search_page.png.

    Raises:
        SystemExit: the demo has no results here, no Chromium is on the path, or a picture is too large.
    """
    if PROGRAM is None:
        sys.exit("no Chromium is on the path: install one, on Debian with its package chromium")
    if not REPORT.exists():
        sys.exit(f"{REPORT} is missing: run `make demo` first")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.set_default_timeout(PATIENCE_MS)
        page.goto(REPORT.as_uri())
        take(page, "report_page.png")
        with search_page() as url:
            ask(page, url)
            take(page, "search_page.png")


if __name__ == "__main__":
    main()
