"""The doors to the terminal and to a job's log: log lines and tracebacks, with keys and passwords taken out."""

import logging
import os
import sys
import threading
import traceback
from types import TracebackType

from r2med_ray.secrets import scrubbed

NOISY = ("faiss", "httpx", "httpx2", "openai", "sentence_transformers")
"""Loggers of libraries that tell more than a reader of a job's log wants to know."""


class ScrubbedFormatter(logging.Formatter):
    """Formats a log record, its traceback included, without keys and passwords."""

    def format(self, record: logging.LogRecord) -> str:
        return scrubbed(super().format(record))


def show_ray(wanted: bool) -> None:
    """Show Ray's own lines, if they are wanted; see `distributed.session.VERBOSE`."""
    from r2med_ray.distributed.session import VERBOSE

    if wanted:
        os.environ[VERBOSE] = "1"


def guard_messages() -> None:
    """Send log lines to stderr, and let no log line and no traceback show a key or a password."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(ScrubbedFormatter("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[lines])
    for noisy in NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)
    sys.excepthook = _print_scrubbed
    threading.excepthook = lambda ended: _print_scrubbed(ended.exc_type, ended.exc_value, ended.exc_traceback)


def _print_scrubbed(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    lines = traceback.format_exception(kind, error, trace)
    sys.stderr.write(scrubbed("".join(lines)))
