import hashlib
import importlib.util
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from r2med_ray.errors import NotAtHand
from r2med_ray.models.catalog.tokenizer_names import tokenizer_identity
from r2med_ray.models.services.tokenizers import open_tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A tokenizer whose tokens are bytes."""
    alphabet = sorted(ByteLevel.alphabet())
    tokens = Tokenizer(BPE({character: number for number, character in enumerate(alphabet)}, []))
    tokens.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokens.enable_truncation(2)
    tokens.enable_padding(length=50)
    tokens.save(str(tmp_path / "tokenizer.json"))
    return str(tmp_path)


def test_tokens_are_counted_without_the_truncation_and_padding_that_the_file_asks_for(folder: str):
    # a is one byte, é two bytes, 中 three bytes.
    assert open_tokenizer(folder, None).count("aé中") == 6


def test_a_text_is_cut_at_a_token(folder: str):
    tokenizer = open_tokenizer(folder, None)

    assert tokenizer.cut("abcdef", 4) == "abcd"
    assert tokenizer.cut("abcd", 4) == "abcd"


def test_a_local_tokenizer_is_named_by_its_bytes(folder: str):
    digest = hashlib.sha256((Path(folder) / "tokenizer.json").read_bytes()).hexdigest()

    assert tokenizer_identity(folder, None) == {"tokenizer": digest}


def test_a_hub_tokenizer_is_named_by_its_commit():
    assert tokenizer_identity("o/m", "0" * 40) == {"tokenizer": "o/m", "revision": "0" * 40}


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path):
    with pytest.raises(NotAtHand, match=r"tokenizer\.json"):
        open_tokenizer(str(tmp_path), None)


def test_a_hub_tokenizer_that_cannot_be_had_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    with pytest.raises(NotAtHand, match=rf"hf download o/no-such-tokenizer tokenizer.json --revision {'0' * 40}"):
        open_tokenizer("o/no-such-tokenizer", "0" * 40)


tiktoken_is_here = pytest.mark.skipif(
    importlib.util.find_spec("tiktoken") is None, reason="tiktoken is not installed"
)


@pytest.mark.skipif(importlib.util.find_spec("tiktoken") is not None, reason="tiktoken is installed")
def test_without_tiktoken_the_error_says_how_to_install_it():
    with pytest.raises(NotAtHand, match=r"pip install 'r2med-ray\[openai\]'"):
        open_tokenizer("tiktoken:cl100k_base", None)


@tiktoken_is_here
def test_cl100k_cuts_between_characters():
    try:
        tokenizer = open_tokenizer("tiktoken:cl100k_base", None)
    except NotAtHand as error:
        pytest.skip(str(error))

    assert tokenizer.count("hello world") == 2
    assert tokenizer.cut("hello world again", 2) == "hello world"
    # A rare character has several tokens. Some of them alone are not a character, so they are left out.
    assert tokenizer.count("a𒀀") > 2
    assert tokenizer.cut("a𒀀", 2) == "a"
    assert tokenizer.count("<|endoftext|>") > 1
