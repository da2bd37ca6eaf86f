"""A language model behind Ray Serve and vLLM, in a process and on a cluster of its own.

python -m tests.integration.language_server FOLDER NAME     prints the address, serves until its input ends
"""

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil
import pytest
import transformers

from r2med_ray.distributed.session import connect
from r2med_ray.serving.llm_app import Engine, serve_language_model
from r2med_ray.serving.serve_session import start_serve
from tests.integration.jobs import REPOSITORY, environment
from tests.unit.tiny_checkpoints import VOCABULARY, save, word_pieces

NAME = "tiny-llama"
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
TEMPLATE += "{% if add_generation_prompt %}assistant:{% endif %}"
CONTEXT = 512
ENGINE = {"max_model_len": CONTEXT, "enforce_eager": True, "dtype": "float32"}
"""Engine arguments: a short context, so that a prompt can be too long, and no compilation."""

needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: the extra `llm` or `llm-cpu`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageServer:
    url: str
    model: Path
    process: psutil.Process

    def engine(self) -> psutil.Process:
        """The process that holds the weights."""
        return self._child("EngineCore")

    def replica(self) -> psutil.Process:
        """The process of Serve's replica, which started the engine and passes requests to the engine."""
        return self._child("LLMServer")

    def is_starting(self) -> bool:
        """Return whether the process that will hold the weights has begun."""
        return bool(self._children("EngineCore"))

    def _child(self, name: str) -> psutil.Process:
        [found] = self._children(name)
        return found

    def _children(self, name: str) -> list[psutil.Process]:
        found = []
        for child in self.process.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # some end while others start
                if name in " ".join([child.name(), *child.cmdline()]):
                    found.append(child)
        return found


def tiny_llama(folder: Path) -> Path:
    """Write a Llama with random weights and a chat template.

    Its heads have 32 numbers. vLLM computes attention on a CPU for heads of 32 numbers or more only.
    """
    sizes = {"hidden_size": 128, "intermediate_size": 128, "num_attention_heads": 2, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(
        **sizes, vocab_size=VOCABULARY, max_position_embeddings=CONTEXT, initializer_range=0.5
    )
    tokens = word_pieces(template="$A", end="[unused0]")
    tokens.chat_template = TEMPLATE
    return save(folder, "LlamaForCausalLM", config, tokens)


@contextmanager
def language_server(
    model: Path,
    name: str,
    *,
    meanwhile: Callable[[LanguageServer], None] = lambda server: None,
    log: int | IO[str] | None = None,
) -> Iterator[LanguageServer]:
    """Serve the checkpoint in a folder during a `with` block.

    Args:
        model: the folder.
        name: the model's name in requests.
        meanwhile: is called while the engine starts, with a server that has no address yet.
        log: gets what the server logs.
    """
    command = [sys.executable, "-m", "tests.integration.language_server", str(model), name]
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    ) as server:
        assert server.stdout is not None
        process = psutil.Process(server.pid)
        meanwhile(LanguageServer(url="", model=model, process=process))
        for line in server.stdout:
            if line.startswith("http://"):
                break
        else:
            raise AssertionError(f"the server ended with {server.wait()} before it gave an address")
        yield LanguageServer(url=line.strip(), model=model, process=process)
        server.communicate()


def main() -> None:
    folder, name = sys.argv[1:]
    engine = Engine(name=name, source=folder, arguments=ENGINE, cpus=1, kv_cache_gib=1)
    with connect("local", num_cpus=2):
        address = start_serve(http=True)
        assert address is not None
        with serve_language_model(name, engine, address) as url:
            print(url, flush=True)  # noqa: T201
            sys.stdin.read()


if __name__ == "__main__":
    main()
