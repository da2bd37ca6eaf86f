"""One language model for all tests that need one, because an engine takes minutes to start."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.language_server import NAME, LanguageServer, language_server, tiny_llama


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny Llama with random weights."""
    return tiny_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def served_llama(llama: Path) -> Iterator[LanguageServer]:
    """The tiny Llama behind Ray Serve and vLLM."""
    with language_server(llama, NAME) as server:
        yield server
