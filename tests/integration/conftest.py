"""One language model for all tests that speak to one: an engine takes minutes to start."""

from collections.abc import Iterator

import pytest

from tests.integration.language_server import NAME, LanguageServer, language_server, tiny_llama


@pytest.fixture(scope="session")
def served_llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    """A tiny Llama of random weights behind Ray Serve and vLLM."""
    with language_server(tiny_llama(tmp_path_factory.mktemp("llama")), NAME) as server:
        yield server
