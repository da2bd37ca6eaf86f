"""L3: a language model behind Ray Serve, compared with the same engine called directly.

    python -m tests.benchmarks.bench_l3_served [--small]      (needs vLLM)

    A  `LLM.chat` of vLLM with all prompts        D  r2med_ray: the served model, asked over HTTP

The model is a tiny Llama with random weights. It writes 256 tokens, about as many as a passage of HyDE, for each of
64 prompts, and has no end token. Both engines run in processes of their own, and take turns. `--small` has 8 prompts
and no bar. Every step of such a small model is cheap, so this shows the highest relative cost of serving.
"""

import argparse
import os
import tempfile
from pathlib import Path

from r2med_ray.chat import ChatPrompt
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.services.chat import ChatModel
from tests.benchmarks.findings import Findings
from tests.benchmarks.rounds import print_seconds, seconds_per_round, times_as_fast
from tests.integration.language_server import ENGINE, NAME, language_server, tiny_llama

PROMPTS = 64
TOKENS = 256
ROUNDS = 5


def measure(folder: Path, small: bool) -> None:
    from vllm import LLM, SamplingParams

    prompts = [
        ChatPrompt(
            unit=f"query {number}",
            messages=({"role": "user", "content": f"fever and rash of patient {number}"},),
            seed=number,
        )
        for number in range(8 if small else PROMPTS)
    ]
    conversations = [list(prompt.messages) for prompt in prompts]
    sampled = [
        SamplingParams(temperature=0.8, max_tokens=TOKENS, seed=prompt.seed, ignore_eos=True) for prompt in prompts
    ]
    with language_server(folder, NAME) as server:
        raw = LLM(str(folder), **ENGINE)
        row = LanguageModelRow(
            name=NAME,
            model=str(folder),
            base_url=server.url,
            system_prompt=None,
            sampling={"temperature": 0.8, "max_tokens": TOKENS},
            body={"ignore_eos": True},
        )
        ours = ChatModel(row.for_replicas())
        told = [said.outputs[0].text for said in raw.chat(conversations, sampled, use_tqdm=False)]
        said = [answer.text for answer in ours.generate(prompts)]
        print(f"{sum(map(str.__eq__, told, said))} of {len(prompts)} texts are the same")
        seconds = seconds_per_round(
            {
                "A": lambda: raw.chat(conversations, sampled, use_tqdm=False),
                "D": lambda: ours.generate(prompts),
            },
            1 if small else ROUNDS,
        )
    items = dict.fromkeys(seconds, len(prompts) * TOKENS)
    print_seconds(seconds, items, "tokens")
    findings = Findings(__file__, small=small)
    findings.add("L3", times_as_fast(seconds, items, "D", "A"))
    findings.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        measure(tiny_llama(Path(folder)), small)


if __name__ == "__main__":
    main()
