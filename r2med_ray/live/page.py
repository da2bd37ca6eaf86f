"""The search page: one HTML file in the looks of the report, which asks nobody but the host that it came from."""

import hashlib
from base64 import b64encode
from importlib.resources import files
from typing import NamedTuple


class SearchPage(NamedTuple):
    """The page, and what it may do."""

    html: str
    policy: str
    """The content security policy: no script runs but the page's own, and nothing is asked of another host."""


def render_page() -> SearchPage:
    """Return the page. It has no text of a benchmark: its script asks for what it shows, and shows it as text."""
    here = files("r2med_ray.live")
    style = files("r2med_ray.reporting").joinpath("page.css").read_text(encoding="utf-8")
    style += here.joinpath("search.css").read_text(encoding="utf-8")
    script = here.joinpath("search.js").read_text(encoding="utf-8")
    html = here.joinpath("search.html").read_text(encoding="utf-8")
    rules = [
        "default-src 'none'",
        "base-uri 'none'",
        "connect-src 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "img-src data:",
        "require-trusted-types-for 'script'",
        f"script-src 'sha256-{_digest(script)}'",
        f"style-src 'sha256-{_digest(style)}'",
    ]
    return SearchPage(html.replace("STYLE", style).replace("SCRIPT", script), "; ".join(rules))


def _digest(text: str) -> str:
    return b64encode(hashlib.sha256(text.encode()).digest()).decode()
