"""E3: a causal language model as an encoder: vLLM's pooling runner beside sentence-transformers.

    python -m tests.benchmarks.bench_e3_pooling [--small] [--checkpoint FOLDER] [--device cuda] [--threads N]

    A  r2med_ray with the default engine        V  r2med_ray with `engine: vllm`

Both read the same tokens, pool the last one and compute in the type `auto` of the device. First the vectors must be
as close as the type allows. Then both take turns in one process. The bar is for GPUs: on a
CPU, the ratio is only printed. Without `--checkpoint`, the model has random weights and 4 layers of 512
numbers. There are 400 documents as long as R2MED's; `--small` has 24 documents and 2 layers of 64 numbers.
"""

import argparse
import tempfile
from pathlib import Path

from r2med_ray.models.catalog.devices import best_dtype, set_threads
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.networks.encoders import build_encoder
from tests.benchmarks.bench_e0_padding import r2med_lengths
from tests.benchmarks.bench_e1_encode import CLOSENESS, texts_of
from tests.benchmarks.findings import Findings
from tests.benchmarks.rounds import Work, print_seconds, seconds_per_round, times_as_fast
from tests.unit.tiny_checkpoints import vllm_model, word_pieces

LARGER = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 4, "num_attention_heads": 8}
LARGER |= {"num_key_value_heads": 8, "head_dim": 64}
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if arguments.threads:
        set_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        tokens = word_pieces(template="$A", end="[unused0]")
        sizes = {} if arguments.small else LARGER
        model = arguments.checkpoint or vllm_model(Path(folder), "Qwen3ForCausalLM", tokens, **sizes)
        findings = Findings(__file__, small=arguments.small, device=arguments.device)
        _compare(model, 24 if arguments.small else 400, arguments.device, 1 if arguments.small else ROUNDS, findings)
        findings.close()


def _compare(model: Path, count: int, device: str, rounds: int, findings: Findings) -> None:
    texts = texts_of(r2med_lengths(count))
    row = EncoderRow(name="deep", model=str(model.absolute()), pooling="last", max_length=512)
    plain, engine = (
        build_encoder(row.model_copy(update={"engine": name}), task="t", device=device)
        for name in ("sentence-transformers", "vllm")
    )
    closest = float((plain.encode_plain(texts) * engine.encode_plain(texts)).sum(axis=1).min())
    dtype = best_dtype(device)
    claim = f"the least cosine of both engines, {closest:.6f}, is at least {CLOSENESS[dtype]}"
    findings.gate(claim, holds=closest >= CLOSENESS[dtype])
    contestants: dict[str, Work] = {
        "A": lambda: plain.encode_plain(texts),
        "V": lambda: engine.encode_plain(texts),
    }
    items = dict.fromkeys(contestants, len(texts))
    seconds = seconds_per_round(contestants, rounds)
    print_seconds(seconds, items, "documents")
    ratio = times_as_fast(seconds, items, "V", "A")
    if device == "cpu":
        findings.leave_out("E3", "it is for GPUs")
    else:
        findings.add("E3", ratio)


if __name__ == "__main__":
    main()
