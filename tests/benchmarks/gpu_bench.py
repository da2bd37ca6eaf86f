"""What the parts of `gpu` share: how much is measured, networks with random weights, and products to compare with."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from r2med_ray.models.catalog.sources import locate
from tests.benchmarks.bench_e1_encode import ROW
from tests.benchmarks.findings import Findings, Measured
from tests.benchmarks.rounds import Work, print_seconds, seconds_per_round, times_as_fast

LONGEST = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured. Shapes are arguments of configurations of transformers."""

    bert: Mapping[str, int]
    decoder: Mapping[str, int]
    documents: int
    vectors: int
    dim: int
    queries: int
    found: int
    pairs_of_query: int
    actors_documents: int
    product: int
    """Rows and columns of the matrices that are multiplied."""

    rounds: int


LARGE = Sizes(
    bert={"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096, "num_hidden_layers": 24},
    decoder={
        **{"hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128},
        **{"intermediate_size": 6144, "num_hidden_layers": 28},
    },
    documents=10_000,
    vectors=24_000_000,
    dim=1024,
    queries=876,
    found=1_000,
    pairs_of_query=100,
    actors_documents=100_000,
    product=8192,
    rounds=3,
)
"""The shapes of BERT-large and of Qwen3-1.7B."""

_FEW = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128, "num_hidden_layers": 2}
SMALL = Sizes(
    bert=_FEW,
    decoder={**_FEW, "num_key_value_heads": 1, "head_dim": 32},
    documents=24,
    vectors=5_000,
    dim=64,
    queries=5,
    found=10,
    pairs_of_query=4,
    actors_documents=100,
    product=256,
    rounds=1,
)


@dataclass(frozen=True, slots=True)
class Bench:
    """What all parts share."""

    findings: Findings
    sizes: Sizes
    device: str
    folder: Path

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def save(self, name: str, model_class: Any, config: Any) -> str:
        """Save a network with random weights in bfloat16 and MiniLM's tokenizer, and return its folder."""
        torch.manual_seed(0)
        with torch.device(self.device):
            model_class(config).to(torch.bfloat16).save_pretrained(self.folder / name)
        tokenizer = transformers.AutoTokenizer.from_pretrained(locate(ROW.model, None), model_max_length=LONGEST)
        tokenizer.save_pretrained(self.folder / name)
        return str(self.folder / name)

    def timed(self, what: str, work: Work, items: int, unit: str, operations: int) -> tuple[list[float], Measured]:
        """Run a work in turn with products of two large matrices in bfloat16.

        Returns:
            The seconds of the work per round, and its floating-point operations a second as a share of the products'.
        """
        size, times = self.sizes.product, 20
        left, right = (torch.randn(size, size, dtype=torch.bfloat16, device=self.device) for _ in range(2))

        def multiply() -> None:
            for _ in range(times):
                left @ right
            self.wait()

        print(what)
        seconds = seconds_per_round({"S": multiply, "D": work}, self.sizes.rounds)
        print_seconds(seconds, {"S": times, "D": items}, f"products or {unit}")
        share = times_as_fast(seconds, {"S": 2 * size**3 * times, "D": operations}, "D", "S")
        return seconds["D"], share
