"""Prompt files of rerankers: RankLLM's format, its expressions, and what a model is sent of them."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.llm_rerankers import LlmRerankerRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.expressions import Expression
from r2med_ray.reranking.llm_prompts import PROMPTS, LlmReranking, load_llm_prompt
from r2med_ray.reranking.llm_reranking import build_llm_reranker
from r2med_ray.reranking.passages import PassageLimit
from r2med_ray.reranking.prompt_files import Passage, Prompt
from r2med_ray.types import Document, Query

RANKLLM = r"""
method: "singleturn_listwise"
system_message: "You rank {num} passages."
prefix: |
  Query: {query}.
body: |
  [{rank}] {candidate}
suffix: |-
  Search Query: {query}.
  Answer like {{"list": [2] > [1]}}.
output_validation_regex: r"^\[\d+\]( > \[\d+\])*$"
output_extraction_regex: r"\[(\d+)\]"
"""


def prompt(folder: Path, text: str, **places: str) -> Prompt:
    path = folder / "prompt.yaml"
    path.write_text(text)
    return load_llm_prompt("listwise", prompt=str(path), places=places)


def sent(asked: Prompt, *passages: str) -> list[tuple[str, str]]:
    shown = [Passage(text, float(place)) for place, text in enumerate(passages)]
    return [(each["role"], each["content"]) for each in asked.messages("rash", shown, show_scores=False)]


def test_a_template_of_rankllm_is_read_as_it_is(tmp_path: Path) -> None:
    # a folded block of YAML ends in a line break, which `|-` leaves out; braces in the passage stay
    assert sent(prompt(tmp_path, RANKLLM), "one {query}", "two") == [
        ("system", "You rank 2 passages."),
        ("user", 'Query: rash.\n[1] one {query}\n[2] two\nSearch Query: rash.\nAnswer like {"list": [2] > [1]}.'),
    ]


def test_a_template_without_a_system_message_sends_none(tmp_path: Path) -> None:
    assert sent(prompt(tmp_path, 'body: "[{rank}] {candidate}; "\nsuffix: "{query}"'), "a") == [
        ("user", "[1] a; rash")
    ]


def test_a_template_with_answers_of_the_assistant_is_a_turn_for_each_passage(tmp_path: Path) -> None:
    text = 'prefix: "For {query}"\nprefix_assistant: "Go."\nbody: "[{rank}] {candidate}"\n'
    asked = prompt(tmp_path, text + 'body_assistant: "Got [{rank}]."\nsuffix: "Rank {num}."')

    assert sent(asked, "a", "b") == [
        *(("user", "For rash"), ("assistant", "Go.")),
        *(("user", "[1] a"), ("assistant", "Got [1].")),
        *(("user", "[2] b"), ("assistant", "Got [2].")),
        ("user", "Rank 2."),
    ]


def test_scores_and_places_of_a_row_are_filled_in(tmp_path: Path) -> None:
    asked = prompt(tmp_path, 'body: "[{rank}] {candidate} BM25 {score} {kind} "\nsuffix: "{query}"', kind="note")

    assert sent(asked, "a", "b") == [("user", "[1] a BM25 0 note [2] b BM25 1 note rash")]
    assert asked.shows_scores


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"{candidate}": "{candidat}"}, r"body: unknown place 'candidat'. Did you mean 'candidate'\?"),
        ({"[{rank}]": ""}, r"the prompt has no place \{rank\}"),
        ({"{query}": "q"}, r"the prompt has no place \{query\}"),
        ({"suffix:": "sufix:"}, r"unknown key 'sufix'. Did you mean 'suffix'\?"),
        ({r"\[(\d+)\]": "(?=x)"}, r"output_extraction_regex: .*the expressions of prompt files are RE2's"),
        ({"prefix: |\n  Query": "prefix: 7\nmethod2: |\n  Query"}, "prefix should be a text, got 7"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_key(
    tmp_path: Path, change: Mapping[str, str], problem: str
) -> None:
    text = RANKLLM
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(ConfigError, match=rf"prompt\.yaml: {problem}"):
        prompt(tmp_path, text)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("[2] > [1]", "[2] > [1]"),
        ("<think>[1] > [2]?</think> <answer> [2] > [1] </answer>", "[2] > [1]"),
        ("I would say [2] > [1]", None),
        ("", None),
    ],
)
def test_the_expressions_of_a_file_say_which_answers_it_reads(tmp_path: Path, answer: str, told: str | None) -> None:
    assert prompt(tmp_path, RANKLLM).told(answer) == told


def test_an_expression_that_says_what_an_answer_looks_like_counts_without_one_that_says_where_its_ids_are(
    tmp_path: Path,
) -> None:
    asked = prompt(tmp_path, RANKLLM.partition("output_extraction")[0])

    assert asked.told("[2] > [1]") == "[2] > [1]"
    assert asked.told("I would say [2] > [1]") is None


def test_ids_that_an_expression_finds_on_both_sides_of_an_equals_sign_are_tied(tmp_path: Path) -> None:
    asked = prompt(tmp_path, RANKLLM.replace("( > ", "( (>|=) "))

    assert asked.told("[3] > [2] = [1]") == "[3] > [2] = [1]"


def test_an_expression_that_would_take_python_years_is_done_at_once() -> None:
    # Python's `re` tries 2^50,000 ways to split the text. RE2 reads it once.
    assert not Expression.of(r"^(a+)+$").is_in("a" * 50_000 + "!")


@given(st.text())
def test_any_text_can_be_searched(text: str) -> None:
    found = Expression.of(r'r"\[(\d+)\]"').found(text + "[7]")

    assert found[-1][1] == "7"


def test_a_passage_is_cut_in_characters_or_in_tokens() -> None:
    class Letters:
        def count(self, text: str) -> int:
            return len(text.replace(" ", ""))

        def cut(self, text: str, most: int) -> str:
            return text[:most]

    documents = [Document(doc_id="d", text="one\n two  three")]
    work = [Candidates(Query(query_id="q", text="a b"), documents, [1.0])]
    characters = PassageLimit(most=6, unit="characters")
    tokens = PassageLimit(most=5, unit="tokens", open_tokenizer=Letters)

    # "one two three" has 13 characters and 11 letters
    assert characters.cut("one\n two  three") == "one tw"
    assert tokens.cut("one\n two  three") == "one t"
    for limit, lost in ((characters, 7), (tokens, 6)):
        cuts = limit.cuts(work)["document"]
        assert (cuts.lost, cuts.unit) == (lost, limit.unit)


def row(**settings: object) -> LlmRerankerRow:
    return LlmRerankerRow.model_validate(
        {"name": "r", "strategy": "listwise", "language_model": "qwen3-32b", **settings}
    )


def test_a_row_samples_and_thinks_as_it_says_and_leaves_the_rest_to_the_language_model() -> None:
    model = load_catalog().language_models["qwen3-32b"]
    asked = row(temperature=0.3, top_p=0.8, top_k=20, max_tokens=8000, thinking=False).asked(model)

    assert asked.sampling.model_dump() == {"temperature": 0.3, "top_p": 0.8, "max_tokens": 8000}
    assert asked.body["top_k"] == 20
    assert asked.body["chat_template_kwargs"]["enable_thinking"] is False
    assert row().asked(model).generation_inputs() == model.generation_inputs()


@pytest.mark.parametrize(
    ("settings", "system"),
    [
        ({}, "You are a helpful assistant."),
        ({"prompt": "/p/own.txt"}, "You are a helpful assistant."),
        ({"prompt": "/p/own.yaml"}, None),
        ({"prompt": "setwise-think"}, "You are a helpful assistant."),
        ({"prompt": "best-of-group"}, None),
        ({"prompt": "/p/own.yaml", "system_prompt": "Rank."}, "Rank."),
    ],
)
def test_a_yaml_prompt_takes_the_system_prompts_place(settings: dict[str, object], system: str | None) -> None:
    model = load_catalog().language_models["qwen-7b"]

    assert row(**settings).asked(model).system_prompt == system


def test_a_row_knows_which_shipped_prompts_are_of_text() -> None:
    assert {file.name: row(prompt=file.stem).has_text_prompt for file in PROMPTS.iterdir()} == {
        file.name: file.suffix == ".txt" for file in PROMPTS.iterdir()
    }


@pytest.mark.parametrize("settings", [{"strategy": "probability"}, {"strategy": "pointwise", "raw": True}])
def test_a_prompt_without_chat_template_is_one_message(settings: dict[str, object], tmp_path: Path) -> None:
    for part in ('system_message: "You grade."', 'body_assistant: "Yes."'):
        (tmp_path / "own.yaml").write_text(f'body: "{{query}} {{doc_content}}"\n{part}')
        with pytest.raises(ConfigError, match=r"own.yaml: a prompt that is continued .* leave out `system_message`"):
            build_llm_reranker(
                load_catalog().language_models["qwen-7b"],
                lambda completion: (completion.text, ""),
                LlmReranking(**settings),  # type: ignore[arg-type]
                prompt=str(tmp_path / "own.yaml"),
            )
    for template in ({"system_prompt": "You grade."}, {"thinking": False}):
        with pytest.raises(ValueError, match=f"`{next(iter(template))}` is part of a chat template"):
            row(**settings, **template)


def test_a_row_has_one_limit_of_passages() -> None:
    with pytest.raises(ValueError, match="give one limit of a passage, got passage_words and passage_tokens"):
        row(passage_words=100, passage_tokens=100)
    with pytest.raises(ValueError, match="`tokenizer` counts `passage_tokens`"):
        row(tokenizer="tiktoken:cl100k_base")


def test_a_row_has_the_settings_of_its_strategy() -> None:
    with pytest.raises(ValueError, match="a listwise reranker has no `samples`; for pointwise and probability"):
        row(samples=2)
    with pytest.raises(ValueError, match="a groupwise reranker has no `step`; for listwise"):
        row(strategy="groupwise", step=5)
    with pytest.raises(ValueError, match="a listwise reranker has no `best_grade`; for groupwise and pointwise"):
        row(best_grade=5)
    with pytest.raises(ValueError, match="`fuse: mean` averages the grades of a groupwise reranker"):
        row(fuse="mean")
    with pytest.raises(ValueError, match="step 10 is larger than the window, 5"):
        row(window=5)
    assert row(strategy="groupwise", window=5).window == 5


def test_settings_that_are_not_given_are_in_no_key() -> None:
    assert set(LlmReranking().inputs()) == {
        *("strategy", "window", "step", "passes", "show_scores", "passage_words", "seed")
    }
    assert LlmReranking(passage_characters=3000).inputs()["passage_characters"] == 3000
