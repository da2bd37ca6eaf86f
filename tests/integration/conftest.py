"""One language model for all tests of a module, because an engine takes minutes to start and holds gigabytes."""

import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.integration.language_server import NAME, LanguageServer, language_server, tiny_llama


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny Llama with random weights."""
    return tiny_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def served_llama(llama: Path) -> Iterator[LanguageServer]:
    """The tiny Llama behind Ray Serve and vLLM."""
    with language_server(llama, NAME) as server:
        yield server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what a command had printed to the report of a test for which the command took too long."""
    report = yield
    if call.excinfo and isinstance(late := call.excinfo.value, subprocess.TimeoutExpired):
        for name, printed in (("standard output", late.stdout), ("standard error", late.stderr)):
            text = printed.decode(errors="replace") if isinstance(printed, bytes) else printed
            report.sections.append((f"{name} until the time was up", text or "nothing"))
    return report
