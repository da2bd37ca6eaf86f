"""The generated texts that R2MED's authors published.

There are twenty files per task, in the task's repository on the Hub. With these texts, every published system with a
rewriter can be computed again without a language model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from r2med_ray.rewriting.methods import spelled
from r2med_ray.settings.registry import Registry

FILE_NAME = "query_with_hydoc.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationSet:
    """One text per query of a task, by one method and one model."""

    method: str
    writer: str

    @property
    def name(self) -> str:
        return f"{self.method}/{self.writer}"

    @property
    def file(self) -> str:
        """The path of the set's file, which is the same in a task's folder and in a task's repository."""
        return f"{self.name}/{FILE_NAME}"


_WRITERS = {
    "hyde": (
        "gpt4", "huatuo-o1-70b", "llama-70b", "o3-mini", "qwen-7b", "qwen-32b", "qwen-72b", "qwq-32b", "r1-llama-70b",
        "r1-qwen-32b",
    ),
    "query2doc": ("gpt4", "qwen-72b", "qwen-7b"),
    "lamer": ("gpt4", "qwen-72b", "qwen-7b"),
    "search-o1": ("qwen3-32b", "qwq-32b"),
    "search-r1": ("qwen-3b-ins", "qwen-7b-ins"),
}  # fmt: skip

_SETS = [GenerationSet(method=method, writer=writer) for method, writers in _WRITERS.items() for writer in writers]
GENERATIONS = Registry("published generation set", [(row.name, row) for row in _SETS])


def local_generations(folder: Path) -> list[tuple[str, Path]]:
    """Return name and file of each generation set in a task's folder. Names have dashes, e.g. `hyde/o3-mini`."""
    return [
        (spelled(f"{path.parent.parent.name}/{path.parent.name}"), path)
        for path in sorted(folder.glob(f"*/*/{FILE_NAME}"))
    ]


def at_hand(folder: Path, is_cached: Callable[[str], bool]) -> list[str]:
    """Return the names of the published sets that a run would find without a network.

    Args:
        folder: the task's folder, which need not exist.
        is_cached: says whether a file of the task's repository is on this machine.
    """
    local = dict(local_generations(folder))
    return [name for name, row in GENERATIONS.items() if name in local or is_cached(row.file)]
