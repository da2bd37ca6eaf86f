"""A benchmark over one demo task with each kind of system, for tests of the search page.

A service that is a script writes the texts of one of its systems.
"""

from pathlib import Path
from typing import Any

import yaml

SYSTEMS: list[dict[str, Any]] = [
    {"name": "bm25", "retriever": "bm25"},
    {"name": "minilm", "retriever": "all-MiniLM-L6-v2"},
    {"name": "hybrid", "retrievers": ["bm25", "all-MiniLM-L6-v2"], "fusion": {"method": "rrf"}},
    {"name": "bm25+hyde", "retriever": "bm25", "rewriter": {"method": "hyde", "llm": "scripted", "samples": 2}},
    {
        "name": "hybrid+maxsim",
        "retrievers": ["bm25", "all-MiniLM-L6-v2"],
        "fusion": {"method": "rrf"},
        "reranker": {"model": "maxsim-minilm", "depth": 10},
    },
    {"name": "replayed", "retriever": "bm25", "rewriter": {"method": "hyde", "generations": "demo-writer"}},
]


def scripted(prompt: str) -> str:
    """Return what the language model writes: the last words of its prompt, and some of its own."""
    return f"A rash after a fever. {' '.join(prompt.split()[-12:])}"


def write_benchmark(folder: Path, url: str, **changes: Any) -> Path:
    """Write the benchmark file, and the rows of a language model that a service answers for and of its reranker."""
    row = {"name": "scripted", "kind": "openai", "model": "m", "base_url": url}
    judge = {"name": "judge", "strategy": "listwise", "language_model": "scripted", "window": 3, "step": 1}
    again = {"name": "again", "encoder": "all-MiniLM-L6-v2", "shown": 2}
    rows = {"language_models": [row], "llm_rerankers": [judge], "listwise_encoders": [again]}
    (folder / "models.yaml").write_text(yaml.safe_dump(rows))
    values = {
        "name": "live",
        "models": "models.yaml",
        "tasks": ["Demo-Posts"],
        "systems": SYSTEMS,
        "resources": {"documents_per_shard": 40},
        **changes,
    }
    path = folder / "live.yaml"
    path.write_text(yaml.safe_dump(values))
    return path
