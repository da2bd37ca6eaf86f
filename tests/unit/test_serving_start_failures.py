"""The cause of a failed start is found in what Ray Serve and vLLM write; the texts have the shapes of real ones."""

import os
from pathlib import Path

from r2med_ray.serving.start_failures import cause_in, cause_in_logs

SERVE = """The deployment failed to start 2 times in a row. See controller logs for details. Error:
\x1b[36mray::ServeReplica:m:LLMServer:m.initialize_and_get_metadata()\x1b[39m (pid=2005, ip=192.0.2.2)
  File "/lib/python3.11/concurrent/futures/_base.py", line 401, in __get_result
    raise self._exception
           ^^^^^^^^^^^^^^^
RuntimeError: Traceback (most recent call last):
  File "/lib/ray/serve/_private/replica.py", line 1867, in initialize
    await self._user_callable_wrapper.initialize_callable()
"""

TOO_LONG = """  File "/lib/ray/llm/vllm_engine.py", line 222, in _get_vllm_engine_config
    raise RuntimeError(f"Failed to create vLLM engine config: {e}") from None
RuntimeError: Failed to create vLLM engine config: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (4096) is greater than the derived max_model_len \
(max_position_embeddings=512.0). [type=value_error, input_value=ArgsKwargs((), {'model': ...}), input_type=ArgsKwargs]
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""

ELSEWHERE = """  File "/lib/vllm/v1/engine/utils.py", line 1320, in wait_for_engine_startup
    raise RuntimeError(
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""

LOG = """WARNING 11-28 22:15:29 [vllm.py:1371] Enforce eager set, disabling torch.compile
(Worker pid=7) ERROR 11-28 22:15:58 [multiproc_executor.py:944] WorkerProc failed to start.
(Worker pid=7) ERROR 11-28 22:15:58 [multiproc_executor.py:944] Traceback (most recent call last):
(Worker pid=7) ERROR 11-28 22:15:58 [multiproc_executor.py:944]   File "/lib/vllm/worker.py", line 9, in init_device
(Worker pid=7) ERROR 11-28 22:15:58 [multiproc_executor.py:944]     self.token_ids = torch.zeros(
(Worker pid=7) ERROR 11-28 22:15:58 [multiproc_executor.py:944] RuntimeError: can't allocate memory: you tried to \
allocate 51200000000 bytes.
(EngineCore pid=6) Exception: WorkerProc initialization failed. See stack trace for root cause.
(EngineCore pid=6) ERROR 11-28 22:16:00 [core.py:1374] EngineCore failed to start.
(EngineCore pid=6) ERROR 11-28 22:16:00 [core.py:1374] Exception: WorkerProc initialization failed due to an \
exception in a background process. See stack trace for root cause.
"""


def test_the_cause_is_what_the_engine_raised_last() -> None:
    assert cause_in(SERVE + TOO_LONG) == (
        "User-specified max_model_len (4096) is greater than the derived max_model_len "
        "(max_position_embeddings=512.0)."
    )


def test_the_name_of_an_exception_stays_with_its_message() -> None:
    raised = (
        "Error:\nRuntimeError: Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'lm_head'\n"
    )

    assert cause_in(raised) == "KeyError: 'lm_head'"


def test_a_text_without_an_exception_is_the_cause_as_a_whole() -> None:
    assert cause_in("Failed to update\nthe deployments") == "Failed to update the deployments"


def test_a_cause_that_stands_in_a_log_is_found_there(tmp_path: Path) -> None:
    (tmp_path / "worker-1.out").write_text(LOG)
    (tmp_path / "worker-2.err").write_text("ValueError: of another process\n")

    assert "root cause above" in cause_in(SERVE + ELSEWHERE)
    assert cause_in_logs(tmp_path, 0.0) == (
        "RuntimeError: can't allocate memory: you tried to allocate 51200000000 bytes."
    )


def test_logs_of_earlier_starts_are_not_read(tmp_path: Path) -> None:
    log = tmp_path / "worker-1.out"
    log.write_text(LOG)
    os.utime(log, (100.0, 100.0))

    assert cause_in_logs(tmp_path, 101.0) == ""
