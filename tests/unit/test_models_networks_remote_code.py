import numpy as np
import pytest
import torch
from transformers import AutoModel

from r2med_ray.cuts import Cuts
from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.encoders import EncoderRow, Prompts
from r2med_ray.models.networks.encoders import build_encoder
from r2med_ray.models.networks.remote_code import RemoteCodeEncoder, load_remote_code
from r2med_ray.models.networks.task_encoders import TaskEncoders
from r2med_ray.types import Document
from tests.unit import tiny_checkpoints

TEXTS = ["rash", "acute renal failure", "fever " * 40]


def row(folder, **changes):
    values = {"name": "own", "model": str(folder), "pooling": "encode", "trust_remote_code": True, "dtype": "float32"}
    prompts = {"query_prompt": "{instruction}: ", "instructions": {"default": "find", "t": "fever"}}
    return EncoderRow.model_validate(values | prompts | {"max_length": 32, "query_max_length": 16} | changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_checkpoints.remote_code(tmp_path_factory.mktemp("own") / "checkpoint")


def test_the_checkpoints_own_encode_gives_the_vectors(folder):
    encoder = TaskEncoders(row(folder), device="cpu", token_budget=1000).for_task("t")
    reference = AutoModel.from_pretrained(folder, trust_remote_code=True).eval()

    def expected(texts, instruction, max_length):
        with torch.inference_mode():
            vectors = [reference.encode([text], instruction=instruction, max_length=max_length)[0] for text in texts]
        return torch.nn.functional.normalize(torch.stack(vectors)).numpy()

    queries = encoder.encode_queries(TEXTS)
    documents = encoder.encode_documents([Document(doc_id=text, text=text) for text in TEXTS])

    assert encoder.dim == 4
    assert queries.dtype == np.float32
    assert queries == pytest.approx(expected(TEXTS, "fever: ", 16), abs=1e-6)
    assert documents == pytest.approx(expected(TEXTS, "", 32), abs=1e-6)
    assert encoder.encode_plain(TEXTS) == pytest.approx(expected(TEXTS, "", 32), abs=1e-6)
    assert encoder.encode_queries([]).shape == (0, 4)


def test_on_a_cpu_it_is_given_one_text_at_a_time(folder):
    model = AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
    tokens = tiny_checkpoints.tokenizer()
    encoder = RemoteCodeEncoder(row(folder), model, tokens, Prompts("fever: ", ""), token_budget=1000)

    encoder.encode_queries(["rash", "fever " * 40, "cough"])

    assert model.calls == [([text], "fever: ", 16) for text in ("fever " * 40, "rash", "cough")]


def test_a_checkpoint_without_encode_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"encoder 'own': BertModel has no `encode`; give another `pooling`"):
        load_remote_code(row(tiny_checkpoints.bert(tmp_path)), "cpu", "float32", token_budget=1000)


def test_it_has_no_token_vectors_for_late_interaction(folder):
    with pytest.raises(ConfigError, match="gives vectors of whole texts only"):
        build_encoder(row(folder), task="t", device="cpu")


def test_what_it_cuts_is_counted_with_the_tokenizer_of_the_checkpoint(folder):
    encoder = TaskEncoders(row(folder), device="cpu", token_budget=1000).for_task("t")
    encoder.encode_queries(["rash", "fever " * 40])
    encoder.encode_documents([Document(doc_id="d", text="fever " * 40)])

    # [CLS] fever : rash [SEP] are 5 tokens, the second query has 44 and the document 42.
    assert encoder.take_cuts() == {
        "query": Cuts(texts=2, cut=1, tokens=49, lost=28, lengths=(16,)),
        "document": Cuts(texts=1, cut=1, tokens=42, lost=10, lengths=(32,)),
    }
