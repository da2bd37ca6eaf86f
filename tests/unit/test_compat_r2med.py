"""`compat: r2med` follows the published protocol of R2MED, rule by rule.

File names and line numbers are those of `src/` in the repository R2MED/R2MED at commit 62b7074. A test of a row of
`compat.DIFFERENCES` has the row's id in its name.
"""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest

from r2med_ray.corpus.loading import load_task
from r2med_ray.demands import Score
from r2med_ray.errors import DataError
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.first_stages.common import WantedRetriever
from r2med_ray.first_stages.kinds import resolve_first_stage
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.indexing.bm25_index import BM25Index
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms
from r2med_ray.models.catalog.encoders import prompts_for
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.ranking import best
from r2med_ray.reranking.heads import rerank
from r2med_ray.reranking.pair_reranking import PairReranker
from r2med_ray.retrieval.file_order import row_id
from r2med_ray.retrieval.query_construction import dense_query, lexical_query, prepare_dense
from r2med_ray.retrieval.search import PlainRetriever, merge_shards
from r2med_ray.rewriting.answers import format_of, read_answer
from r2med_ray.rewriting.methods import METHODS
from r2med_ray.rewriting.published_generations import FILE_NAME, GENERATIONS
from r2med_ray.rewriting.replay import ReplayRewriter
from r2med_ray.settings.compat import DIFFERENCES, Rules, explain, in_force
from r2med_ray.settings.retriever import RetrieverConfig
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Expansion, Query, Run, ScoredDoc
from tests.fakes import SharedWords, WordCountEncoder, answer
from tests.unit.corpus_files import write_jsonl, write_r2med
from tests.unit.rewriting_parts import task
from tests.unit.scripted_runner import ScriptedScorer

CATALOG = load_catalog()
DEFAULT, R2MED = Rules.of("none"), Rules.of("r2med")


def first_stage(model, compat, *, ignore=None):
    retriever = RetrieverConfig(model=model)
    return resolve_first_stage(WantedRetriever(retriever=retriever, rules=Rules.of(compat, ignore)), CATALOG)


def run_of(**rankings):
    return Run(
        tag="r",
        rankings={
            query_id: best([ScoredDoc(doc_id, score) for doc_id, score in hits.items()], 100)
            for query_id, hits in rankings.items()
        },
    )


def mean(run, qrels, measure="nDCG@10"):
    return evaluate(run, qrels, [Measure.parse(measure)]).means[measure]


# The table of differences


def test_every_difference_is_shown_by_a_test_and_no_id_is_there_twice():
    tests = [name for name in globals() if name.startswith("test_")]
    ids = [row.id for row in DIFFERENCES]

    assert len(set(ids)) == len(ids)
    assert [row_id for row_id in ids if not any(row_id.replace("-", "_") in name for name in tests)] == []


def test_the_explanation_has_every_difference():
    paragraphs = explain().split("\n\n")

    assert [paragraph.partition(":")[0] for paragraph in paragraphs] == [row.id for row in DIFFERENCES]
    assert "chosen by  compat: r2med" in paragraphs[0]


@pytest.mark.parametrize(
    ("parts", "ids"),
    [
        (set(), ["conflicting-texts"]),
        ({"bm25"}, ["conflicting-texts", "bm25-duplicate-rows", "bm25-cut", "bm25-zero-scores"]),
        ({"dense"}, ["conflicting-texts", "cosine-for-all", "model-settings", "end-token", "identical-ids"]),
        ({"dense", "api", "reranker"}, [
            "conflicting-texts", "cosine-for-all", "model-settings", "end-token", "api-inputs", "identical-ids",
            "rerank-rest",
        ]),
        ({"dense", "rewriter"}, [
            "conflicting-texts", "cosine-for-all", "model-settings", "end-token", "identical-ids",
            "dense-rewrite-join", "dense-rewrite-prompt", "dense-rewrite-mean", "reasoning-writers",
            "missing-marker", "unusable-texts",
        ]),
    ],
)  # fmt: skip
def test_a_report_can_name_what_is_in_force_for_a_system(parts, ids):
    assert [row.id for row in in_force("r2med", parts)] == ids
    assert in_force("none", parts) == ()


def fields_of_differences():
    """Return the fields of `Rules` that are sides of a difference. One more field is the file's setting for ids."""
    return [field.name for field in dataclasses.fields(Rules) if field.name != "ignore_identical_ids"]


def test_every_difference_that_compat_chooses_has_its_field_of_the_rules_and_no_field_lacks_its_difference():
    chosen = [row.id for row in DIFFERENCES if row.chosen == "compat"]

    assert [name.replace("_", "-") for name in fields_of_differences()] == chosen


@pytest.mark.parametrize(("compat", "side"), [("r2med", True), ("none", False)])
@pytest.mark.parametrize("ignore", [None, False, True])
def test_a_compat_sets_all_rules_together(compat, side, ignore):
    rules = Rules.of(compat, ignore)

    assert dataclasses.asdict(rules) == {
        **dict.fromkeys(fields_of_differences(), side),
        "ignore_identical_ids": ignore,
    }
    assert rules.compat == compat


def test_rules_are_the_default_side_where_nobody_says_otherwise():
    assert Rules() == DEFAULT


# 3.1 Metrics and ties


def test_a_query_with_an_empty_ranking_counts_zero_and_so_does_one_of_missing_queries():
    qrels = {"q1": {"d1": 1}, "q2": {"d1": 1}}

    # The values are 1 and 0. In R2MED's own scripts (pytrec_eval), a query that the run doesn't name is not in the
    # mean. Here it counts 0 as well.
    assert mean(run_of(q1={"d1": 1.0}, q2={}), qrels) == 0.5
    assert mean(run_of(q1={"d1": 1.0}), qrels) == 0.5


@pytest.mark.parametrize(
    ("gap", "rank"),
    [
        # Scores are compared as 32-bit floats. Neighbouring floats near 1 differ by 6e-8. d2 is the greater id.
        (1e-9, 2),
        (1e-6, 1),
    ],
)
def test_scores_closer_than_32_bits_tie_and_the_greater_id_is_first(gap, rank):
    assert mean(run_of(q1={"d1": 1.0 + gap, "d2": 1.0}), {"q1": {"d1": 1}}, "RR") == 1 / rank


def test_rounding_is_left_to_whoever_prints_a_figure():
    value = mean(run_of(q1={"d1": 2.0}, q2={}, q3={}), {query_id: {"d1": 1} for query_id in ("q1", "q2", "q3")})

    # BEIR writes round(1/3, 5) and R2MED's tables round(100 * that, 2)
    assert value == 1 / 3
    assert (round(value, 5), round(100 * round(value, 5), 2)) == (0.33333, 33.33)


@pytest.mark.parametrize("ties", ["doc id", "file row"])
def test_nan_scores_are_refused_where_beir_makes_them_minus_one(ties):
    held = row_id(0, "d1") if ties == "file row" else "d1"
    answers = [[(ScoredDoc(held, float("nan")),)]]

    with pytest.raises(DataError, match=r"query 'q1', document '.*d1' has score nan"):
        merge_shards("r", [Query(query_id="q1", text="")], answers, 1, ties=ties)


# 3.2 BM25

TEXTS = ["fever rash", "fever rash", "cough", "fever", "rash fever", "pain", "fever rash", "cough fever"]


def published_search(rows, queries, k, *, num_shards, hidden=()):
    """Search as `compat: r2med` does. `rows` are pairs (doc id, text), which are cut into shards."""
    size = math.ceil(len(rows) / num_shards)
    cuts = [range(start, min(start + size, len(rows))) for start in range(0, len(rows), size)]
    row = BM25_ROWS["bm25-r2med"]
    terms = [ShardTerms.from_texts([rows[number][1] for number in cut], row.analyzer) for cut in cuts]
    statistics = CorpusStatistics.merge(map(CorpusStatistics.of_shard, terms))
    shards = [
        BM25Index.build(
            of_shard,
            [row_id(number, rows[number][0]) for number in cut],
            statistics,
            row,
            hidden=[number - cut.start for number in cut if number in hidden],
            keep_zero_scores=True,
        )
        for of_shard, cut in zip(terms, cuts, strict=True)
    ]
    retriever = PlainRetriever("r", lambda asked: [query.text for query in asked], shards, ties="file row")
    return retriever.retrieve([Query(query_id=text or "-", text=text) for text in queries], k=k).rankings


def test_bm25_query_weights_are_chosen_by_name():
    # eval_BM25.py:75; test_indexing_bm25.py has scores that are worked out by hand
    for compat in ("none", "r2med"):
        assert not first_stage("bm25", compat).row.weighted_queries
        assert first_stage("bm25-r2med", compat).row.weighted_queries


@pytest.mark.parametrize("num_shards", [1, 2, 3, 7])
@pytest.mark.parametrize("k", range(1, 10))
def test_bm25_cut_keeps_the_earlier_rows_whatever_the_shards(k, num_shards):
    # ids fall as rows rise, so the order by id is the reverse
    rows = [(f"d{9 - number}", text) for number, text in enumerate(TEXTS)]
    whole = published_search(rows, ["fever rash"], len(rows), num_shards=1)["fever rash"]
    score_of = {hit.doc_id: hit.score for hit in whole}

    cut = published_search(rows, ["fever rash"], k, num_shards=num_shards)["fever rash"]

    # eval_BM25.py:80 is sorted(scores.items(), key=score, reverse=True)[:100] over a dict in file order. trec_eval
    # then orders the documents that are left.
    in_file_order = [(doc_id, score_of[doc_id]) for doc_id, _ in rows]
    kept = sorted(in_file_order, key=lambda item: item[1], reverse=True)[:k]
    assert cut == best([ScoredDoc(*item) for item in kept], k)


def test_bm25_cut_is_by_doc_id_without_compat():
    terms = ShardTerms.from_texts(["fever", "fever"], BM25_ROWS["bm25"].analyzer)
    index = BM25Index.build(terms, ["a", "b"], CorpusStatistics.of_shard(terms), BM25_ROWS["bm25"])

    assert [hit.doc_id for hit in index.search(["fever"], 1)[0]] == ["b"]


@pytest.mark.parametrize("num_shards", [1, 3])
def test_bm25_zero_scores_fill_the_ranking_with_the_first_rows(num_shards):
    rows = [(f"d{9 - number}", text) for number, text in enumerate(TEXTS)]
    found = published_search(rows, ["cough", "zzz", ""], 4, num_shards=num_shards)

    # "cough" is in rows 2 and 7 (d7 and d2). Rows 0 and 1 (d9 and d8) follow.
    assert {hit.doc_id for hit in found["cough"]} == {"d7", "d2", "d9", "d8"}
    assert found["zzz"] == found["-"] == (("d9", 0.0), ("d8", 0.0), ("d7", 0.0), ("d6", 0.0))


def test_bm25_duplicate_rows_count_in_the_statistics_and_are_ranked_once(tmp_path):
    source = write_r2med(
        tmp_path / "a", corpus=[("d1", "fever"), ("d2", "rash"), ("d1", "fever")], queries=[("q1", "x")]
    )
    corpus = load_task(source, ArtifactStore(str(tmp_path / "store")), documents_per_shard=2).corpus

    # eval_BM25.py:105-112 reads every row. The third row repeats the first.
    assert corpus.duplicate_rows == (2,)
    assert [first_stage("bm25", "r2med").skip_rows(corpus, shard) for shard in corpus.shards] == [(), ()]
    assert [first_stage("bm25", "none").skip_rows(corpus, shard) for shard in corpus.shards] == [(), (2,)]

    rows = [("d1", "fever"), ("d2", "rash"), ("d1", "fever")]
    [ranking] = published_search(rows, ["fever"], 5, num_shards=2, hidden={2}).values()
    # N = 3, df = 2: idf = ln 4 - ln 2.5 = 0.4700036. The average length is 1: 1 / 1.9, for the document and the
    # query.
    assert ranking == (("d1", pytest.approx((0.4700036 / 1.9) ** 2)), ("d2", 0.0))


# 3.3 Dense search


def test_conflicting_texts_end_with_the_last_one(tmp_path):
    source = write_r2med(
        tmp_path / "a", corpus=[("d1", "first"), ("d2", "x"), ("d1", "last")], qrels=[("q1", "d1", 1)]
    )
    store = ArtifactStore(str(tmp_path / "store"))

    # eval_retrieval.py:21-26 fills a dict
    assert load_task(source, store, documents_per_shard=2, on_conflict="last").corpus.duplicate_rows == (0,)
    with pytest.raises(DataError, match=r"corpus\.jsonl:3: id 'd1' has another text than at .*corpus\.jsonl:1"):
        load_task(source, store, documents_per_shard=2)


@pytest.mark.parametrize(
    ("model", "compat", "ignore", "dropped"),
    [
        ("contriever", "r2med", None, True),
        ("contriever", "none", None, False),
        ("contriever", "r2med", False, False),
        ("contriever", "none", True, True),
        ("bm25-r2med", "r2med", None, False),
        ("bm25-r2med", "none", None, False),
        ("bm25-r2med", "r2med", True, True),
    ],
)
def test_identical_ids_are_dropped_by_vectors_only(model, compat, ignore, dropped):
    # eval_retrieval.py:110; eval_BM25.py has no such step
    assert first_stage(model, compat, ignore=ignore).drop_identical_ids is dropped


@pytest.mark.parametrize("ties", ["doc id", "file row"])
def test_k_documents_remain_once_identical_ids_and_excluded_ones_are_dropped(ties):
    query = Query(query_id="d9", text="", excluded=frozenset({"d8", "d7"}))
    held = [row_id(row, f"d{9 - row}") if ties == "file row" else f"d{9 - row}" for row in range(6)]
    hits = [ScoredDoc(doc_id, 9.0 - row) for row, doc_id in enumerate(held)]

    class Shard:
        def search(self, queries, k):
            return [best(hits, k) for _ in queries]

    retriever = PlainRetriever("r", list, [Shard()], drop_identical_ids=True, ties=ties)

    # rows 0 to 5 are d9 to d4
    assert [hit.doc_id for hit in retriever.retrieve([query], k=3).rankings["d9"]] == ["d6", "d5", "d4"]


def test_dense_ties_at_the_cut_keep_the_greater_id():
    # BEIR's heap of (score, doc id) keeps the greater ids of the documents that torch.topk returned
    hits = [ScoredDoc(f"d{number}", 0.5) for number in range(5)]
    run = merge_shards("r", [Query(query_id="q", text="")], [[tuple(hits[:2])], [tuple(hits[2:])]], 2)

    assert [hit.doc_id for hit in run.rankings["q"]] == ["d4", "d3"]


@pytest.mark.parametrize(
    ("cosine", "first"),
    [
        # the query is (1, 1), the documents are (3, 0) and (1, 1): inner products 3 and 2, cosines 0.71 and 1
        (False, "long"),
        (True, "short"),
    ],
)
def test_cosine_for_all_models_turns_the_order_of_lengths_round(cosine, first):
    encoder = WordCountEncoder("fever", "rash")
    documents = [Document(doc_id="long", text="fever fever fever"), Document(doc_id="short", text="fever rash")]
    query = Query(query_id="q", text="fever rash")
    [query_D] = prepare_dense([query], encoder, rules=R2MED, expansion_prompt="none", cosine=cosine)
    documents_ND = encoder.encode_documents(documents)
    if cosine:
        documents_ND /= np.linalg.norm(documents_ND, axis=1, keepdims=True)

    assert documents[int(np.argmax(documents_ND @ query_D))].doc_id == first


# 3.4 Encoders


@pytest.mark.parametrize(
    ("key", "pooling", "query_length", "document_length", "similarity"),
    [
        ("contriever", "mean", 512, 512, "dot"),
        ("medcpt", "cls", 512, 512, "dot"),
        ("inst-l", "model", 512, 512, "cosine"),
        ("inst-xl", "model", 512, 512, "cosine"),
        ("bmr-410m", "last", 512, 512, "dot"),
        ("bmr-2b", "last", 1024, 1024, "dot"),
        ("bmr-7b", "last", 2048, 2048, "dot"),
        ("bge", "cls", 512, 512, "cosine"),
        ("e5", "last", 2048, 2048, "cosine"),
        ("sfr", "last", 2048, 2048, "cosine"),
        ("grit", "mean", 512, 2048, "cosine"),
        ("nv", "encode", 4096, 4096, "cosine"),
    ],
)
def test_encoders_read_and_pool_as_published(key, pooling, query_length, document_length, similarity):
    [row] = [row.under("r2med") for row in CATALOG.encoders.values() if row.published == key]

    assert (row.pooling, row.max_length, row.similarity) == (pooling, document_length, similarity)
    assert (row.query_max_length or row.max_length) == query_length


def test_model_settings_give_medcpt_its_article_encoder_for_queries():
    [row] = [row for row in CATALOG.encoders.values() if row.published == "medcpt"]

    # eval_retrieval.py:160 takes the second of two encoders for both sides
    assert (row.under("none").model, row.document_model) == (
        "ncbi/MedCPT-Query-Encoder",
        "ncbi/MedCPT-Article-Encoder",
    )
    assert (row.under("r2med").model, row.under("r2med").document_model) == ("ncbi/MedCPT-Article-Encoder", "")


@pytest.mark.parametrize(
    ("key", "appended"),
    [("e5", False), ("sfr", False), ("bmr-410m", True), ("bmr-2b", True), ("bmr-7b", True)],
)
def test_end_token_is_appended_for_bmretriever_only(key, appended):
    # In HighScaleModel.encode, `Base` only calls the tokenizer. `BMR` cuts to one token less and adds eos_token_id.
    [row] = [row for row in CATALOG.encoders.values() if row.published == key]

    assert (row.under("r2med").pooling, row.under("r2med").append_eos) == ("last", appended)
    assert row.under("none").append_eos


@pytest.mark.parametrize("key", ["openai", "voyage"])
def test_api_inputs_are_json_strings(key):
    [row] = [row for row in CATALOG.api_encoders.values() if row.published == key]

    # utils.py:776
    assert row.under("r2med").formatted('a "β"\nb') == r'"a \"\u03b2\" b"' == json.dumps('a "β" b')
    assert row.under("none").formatted('a "β"\nb') == 'a "β"\nb'


class EightWords(WordCountEncoder):
    """An encoder that reads the first eight words of a text."""

    def encode_plain(self, texts):
        return super().encode_plain([" ".join(text.replace("[SEP]", " ").split()[:8]) for text in texts])


def test_each_piece_is_cut_on_its_own_and_a_joined_text_as_one():
    def vector(*expansions):
        query = Query(query_id="q", text="pain " * 20, expansions=expansions)
        encoder = EightWords("pain", "nerve")
        return prepare_dense([query], encoder, rules=R2MED, expansion_prompt="none", cosine=False)[0].tolist()

    # The query alone fills 8 words, so a text joined to it is lost. A separate text isn't: (8, 0) and (0, 1) average.
    assert vector(Expansion(text="nerve", method="query2doc")) == vector() == [8, 0]
    assert vector(Expansion(text="nerve", method="hyde")) == [4, 0.5]


# 3.5 Instructions

BODIES = {
    "Biology": "Given a Biology post, retrieve relevant passages that help answer the post",
    "Medical-Sciences": "Given a Medical Science post, retrieve relevant passages that help answer the post",
    "Bioinformatics": "Given a Bioinformatics post, retrieve relevant passages that help answer the post",
    "MedXpertQA-Exam": "Given a Medical Exam, retrieve relevant passages that help answer the exam",
    "MedQA-Diag": "Given a Medical Exam, retrieve relevant passages that help answer the exam",
    "PMC-Treatment": "Given a Clinical Case, retrieve relevant passages that help answer the case",
    "PMC-Clinical": "Given a Clinical Case, retrieve similar cases that help diagnose the case",
    "IIYi-Clinical": "Given a Clinical Case, retrieve similar cases that help diagnose the case",
}
INSTRUCTOR = {
    "Biology": (
        "Represent the Biology post for retrieving relevant paragraphs: ",
        "Represent the Biology paragraph for retrieval: ",
    ),
    "Medical-Sciences": (
        "Represent the Medical Science post for retrieving relevant paragraphs: ",
        "Represent the Medical Science paragraph for retrieval: ",
    ),
    "Bioinformatics": (
        "Represent the Bioinformatics post for retrieving relevant paragraphs: ",
        "Represent the Bioinformatics paragraph for retrieval: ",
    ),
    "MedXpertQA-Exam": (
        "Represent the Medical Exam for retrieving relevant paragraphs that help answer the exam: ",
        "Represent the Medical paragraph for retrieval: ",
    ),
    "MedQA-Diag": (
        "Represent the Medical Exam for retrieving relevant paragraphs that help answer the exam: ",
        "Represent the Medical paragraph for retrieval: ",
    ),
    "PMC-Treatment": (
        "Represent the Clinical Case for retrieving relevant paragraphs that help answer the case: ",
        "Represent the Medical paragraph for retrieval: ",
    ),
    "PMC-Clinical": (
        "Represent the Clinical Case for retrieving similar cases that help diagnose the case: ",
        "Represent the Clinical Case for retrieval: ",
    ),
    "IIYi-Clinical": (
        "Represent the Clinical Case for retrieving similar cases that help diagnose the case: ",
        "Represent the Clinical Case for retrieval: ",
    ),
}


def published_prompts(key, task):
    """Return the prompts of instrcution.py:14-79, with today's task names, or those of utils.py for all tasks."""
    body = BODIES[task]
    if key.startswith("inst-"):
        return INSTRUCTOR[task]
    if key.startswith("bmr-"):
        return f"{body}\nQuery: ", "Represent this passage\npassage: "
    return {
        "e5": (f"Instruct: {body}\nQuery: ", ""),
        "sfr": (f"Instruct: {body}\nQuery: ", ""),
        "nv": (f"Instruct: {body}\nQuery: ", ""),
        "grit": (f"<|user|>\n{body}\n<|embed|>\n", "<|embed|>\n"),
        "bge": ("Represent this sentence for searching relevant passages: ", ""),
    }.get(key, ("", ""))


@pytest.mark.parametrize("task", BODIES)
@pytest.mark.parametrize(
    "key",
    ["contriever", "medcpt", "inst-l", "inst-xl", "bmr-410m", "bmr-2b", "bmr-7b", "bge", "e5", "sfr", "grit", "nv"],
)
def test_what_stands_before_queries_and_documents(key, task):
    rows = [row for row in CATALOG.encoders.values() if row.published == key]
    if not rows:
        pytest.skip(f"the catalogue has no {key!r} yet")

    for row in rows:
        assert prompts_for(row.under("r2med"), task) == published_prompts(key, task)


@pytest.mark.parametrize("task", ["NanoR2MEDBiology", "NanoR2MEDIIYiClinical"])
def test_nano_tasks_are_asked_with_the_one_prompt_that_harriers_published_lists_were_made_with(task):
    # the model's stored prompt `web_search_query`; HAKARI-Bench has no instructions by task
    assert prompts_for(CATALOG.encoders["harrier-oss-v1-270m"], task) == (
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ",
        "",
    )


# 3.6 Queries of GAR systems, by method and language model

REASONING = [
    "r1-llama-8b", "r1-qwen-32b", "r1-llama-70b", "qwq-32b", "huatuo-o1-8b", "huatuo-o1-70b", "sky-32b", "qwen3-8b",
    "qwen3-32b", "qwen-7b-ins", "qwen-3b-ins",
]  # fmt: skip
"""The reasoning writers that base.py:3-4 lists."""

PLAIN = ["qwen-7b", "qwen-32b", "qwen-72b", "llama-70b", "gpt4", "o3-mini"]
PUBLISHED_METHODS = ["hyde", "query2doc", "lamer", "search-o1", "search-r1"]


def raw_output(writer):
    """Return an output as models of the writer's family write it, with the answer `nerve h`."""
    if writer.startswith(("r1-", "qwq-", "qwen3-")):
        return "<think>long\nthought</think>\n\nnerve h\n"
    if writer.startswith("huatuo-"):
        return "## Thinking\n\nlong\n\n## Final Response\n\nnerve h"
    if writer == "sky-32b":
        return "<|begin_of_thought|>long<|end_of_thought|><|begin_of_solution|>\nnerve h\n<|end_of_solution|>"
    return "<think>long</think><answer> nerve h </answer>" if writer.endswith("-ins") else "nerve h"


def rewritten(tmp_path, method, writer, raw, compat):
    (tmp_path / method / writer).mkdir(parents=True)
    write_jsonl(tmp_path / method / writer / FILE_NAME, [{"id": "7", "text": "acute pain", "hy_doc": raw}])
    config = RewriterConfig(method=method, generations=writer, max_unusable=1.0)
    rewriter = ReplayRewriter(config, task=task(tmp_path), method=METHODS[method], rules=Rules.of(compat))
    rewriting, demanded = answer(rewriter.rewrite([Query(query_id="7", text="acute pain")]), {})
    assert demanded == []
    return rewriting.queries[0]


@pytest.mark.parametrize("expansion_prompt", ["none", "query"])
@pytest.mark.parametrize(("method", "writer"), list(itertools.product(PUBLISHED_METHODS, [*REASONING, *PLAIN])))
def test_bm25_rewrite_dense_rewrite_join_and_prompt_and_reasoning_writers(tmp_path, method, writer, expansion_prompt):
    query = rewritten(tmp_path, method, writer, raw_output(writer), "r2med")

    # eval_BM25.py:129, eval_retrieval.py:42, base.py:5, utils.py:233-236, 578-581, 645-649
    lexical, dense = "nerve h", [("acute pain", "query"), ("nerve h", expansion_prompt)]
    if writer in PLAIN and method == "query2doc":
        lexical, dense = "acute painacute pain nerve h", [("acute pain[SEP]nerve h", "query")]
    if writer in PLAIN and method == "lamer":
        lexical = "acute pain nerve h"
    assert lexical_query(query, R2MED) == lexical
    assert list(dense_query(query, R2MED, expansion_prompt)) == dense


@pytest.mark.parametrize("prompt", ["none", "query"])
def test_dense_rewrite_prompt_is_the_documents_by_default(prompt):
    query = Query(query_id="7", text="pain", expansions=(Expansion(text="nerve", method="hyde"),))

    assert dense_query(query, DEFAULT, prompt)[1] == ("nerve", "document")
    assert dense_query(query, R2MED, prompt)[1] == ("nerve", prompt)


@pytest.mark.parametrize("key", ["contriever", "medcpt", "inst-l", "inst-xl", "bmr-410m", "bge", "e5", "grit", "nv"])
def test_dense_rewrite_prompt_of_each_model(key):
    rows = [row for row in CATALOG.encoders.values() if row.published == key]
    if not rows:
        pytest.skip(f"the catalogue has no {key!r} yet")

    expected = "query" if key in ("inst-l", "inst-xl", "grit", "nv") else "none"
    assert {row.under("r2med").expansion_prompt for row in rows} == {expected}


@pytest.mark.parametrize(
    ("compat", "expected"),
    [
        # The query is (1, 0), the text is (0, 3). Their mean (0.5, 1.5) is divided by its length, or the mean of
        # (1, 0) and (0, 1) is divided by its length.
        ("r2med", (0.316228, 0.948683)),
        ("none", (0.707107, 0.707107)),
    ],
)
def test_dense_rewrite_mean_is_of_the_vectors_as_they_come(compat, expected):
    query = Query(query_id="7", text="pain", expansions=(Expansion(text="nerve nerve nerve", method="hyde"),))
    [vector_D] = prepare_dense(
        [query], WordCountEncoder("pain", "nerve"), rules=Rules.of(compat), expansion_prompt="none", cosine=True
    )

    assert vector_D == pytest.approx(expected, abs=1e-6)


# 3.7 Answers of reasoning models


def test_reasoning_writers_are_those_of_the_published_list():
    names = [*REASONING, *PLAIN, "r1_llama_70b", "o3_mini", "demo-reasoner", "my-model"]

    assert [name for name in names if format_of(name).reasoning] == [*REASONING, "r1_llama_70b", "demo-reasoner"]
    assert {row.writer for row in GENERATIONS.values()} <= {*REASONING, *PLAIN}


@pytest.mark.parametrize(
    ("writer", "raw", "text", "flag"),
    [
        ("r1-qwen-32b", " <think>a\nb ", " <think>a\nb ", "no closing tag"),
        ("r1-qwen-32b", "<think>a</think>b\n</think> c ", "b\n</think> c", "unclear marks"),
        ("huatuo-o1-8b", "a", "a", "no closing tag"),
        ("huatuo-o1-8b", "a Final Response b Final Response c", "b Final Response c", "unclear marks"),
        ("sky-32b", "<|begin_of_solution|> b", "<|begin_of_solution|> b", "no closing tag"),
        ("qwen-7b-ins", "<answer>b", "<answer>b", "no closing tag"),
        ("qwen-7b-ins", "<answer>b\nc</answer><answer>d</answer>", "b\nc", "none"),
        ("gpt4", "<think>a</think>b", "<think>a</think>b", "none"),
        ("gpt4", " b \n", " b \n", "none"),
    ],
)
def test_r06_missing_marker_leaves_the_whole_text_and_is_flagged(writer, raw, text, flag):
    # base.py:7-36
    read = read_answer(raw, writer, rules=R2MED)

    assert (read.text, read.flag) == (text, flag)


@pytest.mark.parametrize(
    ("writer", "raw", "text", "flag"),
    [
        ("r1-qwen-32b", "<think>a</think>\n", "", "empty"),
        ("gpt4", "", "", "empty"),
        ("gpt4", "I'm sorry, but I can't assist with that.", "I'm sorry, but I can't assist with that.", "refusal"),
    ],
)
def test_r06_unusable_texts_are_used_as_they_are(tmp_path, writer, raw, text, flag):
    published = rewritten(tmp_path / "r2med", "hyde", writer, raw, "r2med")

    assert read_answer(raw, writer, rules=R2MED).flag == flag
    assert lexical_query(published, R2MED) == dense_query(published, R2MED, "none")[1].text == text
    assert rewritten(tmp_path / "none", "hyde", writer, raw, "none").expansions == ()


# 3.9 Rerankers


@pytest.mark.parametrize(("rules", "ids"), [(R2MED, ["d2", "d3"]), (DEFAULT, ["d2", "d3", "d1"])])
def test_rerank_rest_is_left_out(rules, ids):
    run = run_of(q={"d3": 3.0, "d2": 2.0, "d1": 1.0})
    documents = {
        doc_id: Document(doc_id=doc_id, text=text) for doc_id, text in (("d1", "pain"), ("d2", "pain"), ("d3", "x"))
    }
    query = Query(query_id="q", text="pain", expansions=(Expansion(text="x", method="hyde"),))

    # The reranker reads the user's query. d2 has the query's word. d3 has the text's word and not the query's.
    reranker, keep_rest = PairReranker(ScriptedScorer()), not rules.rerank_rest
    steps = rerank(run, reranker, [query], documents, depth=2, tag="r", keep_rest=keep_rest)
    reranked, _ = answer(steps, {Score: lambda demand: SharedWords().score_all(demand.candidates)})

    assert [hit.doc_id for hit in reranked.run.rankings["q"]] == ids
