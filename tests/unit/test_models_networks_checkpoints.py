import pytest
import torch
import transformers

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.networks.checkpoints import load_network, longest_input
from tests.unit import tiny_checkpoints


def test_rk01_the_limit_is_the_smaller_of_tokenizer_and_positions():
    config = transformers.BertConfig(**tiny_checkpoints.SMALL, max_position_embeddings=40)
    model = transformers.BertModel(config)

    assert longest_input(tiny_checkpoints.tokenizer(max_length=int(1e30)), model) == 40
    assert longest_input(tiny_checkpoints.tokenizer(max_length=30), model) == 30


def test_rk01_positions_up_to_the_padding_tokens_are_lost():
    # Positions start at padding_idx + 1 = 2, so 40 positions have room for 38 tokens.
    config = transformers.RobertaConfig(**tiny_checkpoints.SMALL, max_position_embeddings=40, pad_token_id=1)
    model = transformers.RobertaModel(config).eval()
    tokens = tiny_checkpoints.tokenizer(max_length=int(1e30))

    assert longest_input(tokens, model) == 38
    model(torch.full((1, 38), 7))
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((1, 39), 7))


def test_rotary_positions_are_limited_by_the_configuration():
    config = transformers.LlamaConfig(**tiny_checkpoints.SMALL, max_position_embeddings=77)

    assert longest_input(tiny_checkpoints.tokenizer(max_length=int(1e30)), transformers.LlamaModel(config)) == 77


def test_a_checkpoint_without_modules_is_not_pooled_by_guesswork(tmp_path):
    row = EncoderRow(name="m", model=str(tiny_checkpoints.bert(tmp_path)), pooling="model", max_length=16)

    with pytest.raises(ConfigError, match=r"encoder 'm'.*no modules\.json; give `pooling: mean`"):
        load_network(row, "cpu", "float32")
