"""Starts applications of Ray Serve, and says why one didn't start.

`serve.run` says only which deployments failed. Each deployment's status holds the traceback of its last replica. If a
process of the engine failed, that traceback says "See root cause above", and the cause is in the replica's log.
"""

import logging
import re
import time
from pathlib import Path
from typing import Any

from ray import serve
from ray._private import worker
from ray.exceptions import RayError
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import ApplicationStatus, ApplicationStatusOverview

from r2med_ray.errors import StageError
from r2med_ray.serving.serve_session import LOOKS_EVERY_S
from r2med_ray.waiting import Wait

logger = logging.getLogger(__name__)

RETRYING = re.compile(r"^A replica failed to start with exception\. Retrying.*?\. Error:\n", re.DOTALL)
"""What Serve says of a deployment before it starts another replica in place of one that did not start."""

DIED = "ActorDiedError("
"""All that Serve says of a process that ended."""

MOST_CHARACTERS = 1_000
"""Characters of a cause that an error quotes."""

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_EXCEPTION = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)(?::\s|$)", re.MULTILINE)
_END = re.compile(
    r"\n(?=\s*File \"|\s*For further information|Traceback |\w+ failed to start)|\s*\[type=\w+, input_value="
)
_OF_PYDANTIC = re.compile(r"\A.*?\d+ validation errors? for [^\n]*\n(?:\w[^\n]*\n)?\s*(?:Value error, )?", re.DOTALL)
_ELSEWHERE = re.compile(r"\broot cause\b", re.IGNORECASE)
_OF_ENGINE = re.compile(r"^\((?:EngineCore|Worker)[^)]*\) ERROR \S+ \S+ \[[^\]]*\] ?(.*)$", re.MULTILINE)
"""A line that vLLM logs in a process of its engine, e.g. `(Worker pid=7) ERROR 11-28 22:15:58 [core.py:9] ...`."""


def run_application(
    application: serve.Application, *, what: str, name: str, within_s: float, **options: Any
) -> DeploymentHandle[Any]:
    """Start an application, and wait until its replicas run. Each replica that does not start is told.

    Args:
        application: the application.
        what: the name of the model in errors, e.g. "language model 'm'".
        name: the name of the application.
        within_s: seconds that the start may take.
        options: other fields of `serve.RunTarget`.

    Raises:
        StageError: a replica failed to start, and the message is the replica's own exception; or the start takes too
            long.
    """
    begun, wait, told = time.time(), Wait(within_s), set[str]()
    try:
        serve.run_many([serve.RunTarget(application, name=name, **options)], wait_for_applications_running=False)
        while (said := serve.status().applications[name]).status != ApplicationStatus.RUNNING:
            if said.status == ApplicationStatus.DEPLOY_FAILED:
                raise RuntimeError(said.message)
            _tell_failures(what, said, told)
            if not wait.goes_on(f"the start of {what}"):
                cause = f"it has not started within {within_s:g} s, the limit `resources.no_progress_timeout_s`"
                raise StageError("serve", what, f"{cause}. {_messages(said)}".strip())
            time.sleep(LOOKS_EVERY_S)
        return serve.get_app_handle(name)
    except (RayError, RuntimeError) as error:
        cause = _cause_of_failure(name, begun) or str(error)
        raise StageError("serve", what, cause) from None


def _tell_failures(what: str, application: ApplicationStatusOverview, told: set[str]) -> None:
    """Say of each replica that did not start why, and that another one is started; once."""
    for message in {item.message for item in application.deployments.values()} - told:
        told.add(message)
        if RETRYING.match(message):
            said = RETRYING.sub("", message)
            cause = "its process ended" if said.startswith(DIED) else cause_in(said)[:MOST_CHARACTERS]
            logger.warning("%s: a replica did not start, and another one is started: %s", what, cause)


def cause_in(traceback: str) -> str:
    """Return the last exception of a traceback with its message, in one line."""
    text = _COLOUR.sub("", traceback)
    return next(iter(reversed(_exceptions(text))), " ".join(text.split()))


def cause_in_logs(folder: Path, since: float) -> str:
    """Return the last exception that an engine's processes logged and that points at no other; "" without one.

    Args:
        folder: the logs of Ray on this machine.
        since: logs that were last written before this time are not read, in seconds since 1970.
    """
    logs = [(path.stat().st_mtime, path) for path in folder.glob("worker-*")]
    for written, path in sorted(logs, reverse=True):
        if written >= since:
            text = _COLOUR.sub("", path.read_text(encoding="utf-8", errors="replace"))
            found = [item for item in _exceptions("\n".join(_OF_ENGINE.findall(text))) if not _ELSEWHERE.search(item)]
            if found:
                return found[-1]
    return ""


def _cause_of_failure(application: str, since: float) -> str:
    status = serve.status().applications.get(application)
    deployments = status.deployments.values() if status else ()
    said = next((item.message for item in deployments if "failed to start" in item.message), "")
    cause, node = cause_in(said), worker._global_node
    if node is not None and _ELSEWHERE.search(cause):
        cause = cause_in_logs(Path(node.get_logs_dir_path()), since) or cause
    return cause[:MOST_CHARACTERS]


def _messages(application: ApplicationStatusOverview) -> str:
    """Return what Serve says of the deployments of an application, e.g. that no node has room for a replica."""
    return " ".join(item.message for item in application.deployments.values() if item.message)[:MOST_CHARACTERS]


def _exceptions(text: str) -> list[str]:
    """Return the exceptions that are named at beginnings of lines, each with its message in one line."""
    messages = (_END.split(text[found.start() :], maxsplit=1)[0] for found in _EXCEPTION.finditer(text))
    return [" ".join(_OF_PYDANTIC.sub("", message).split()) for message in messages]
