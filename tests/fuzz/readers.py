"""The readers of foreign files and of language models' answers, each with files that it can read.

A reader takes the path of a file, or a text, and reads all of it. To add a reader, add a row.
"""

import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from r2med_ray.corpus.layouts import LAYOUTS
from r2med_ray.corpus.pack_files import read_files
from r2med_ray.corpus.readers import read_documents, read_qrels, read_queries
from r2med_ray.corpus.topics import read_json_topics, read_trec_topics
from r2med_ray.evaluation import trec
from r2med_ray.evaluation.run_columns import read_rows
from r2med_ray.interop.mteb_import import read_mteb_results
from r2med_ray.models.catalog.load import INSTRUCTIONS, SECTIONS, _read
from r2med_ray.models.catalog.parsing import parse_row
from r2med_ray.models.services.service_words import words_of
from r2med_ray.reranking.grades import read_grades
from r2med_ray.reranking.permutations import read_permutation
from r2med_ray.retrieval.ranked_lists import read_lists
from r2med_ray.rewriting.agents.formats import AGENTS, AgentFormat
from r2med_ray.rewriting.answer_formats import AnswerFormat
from r2med_ray.rewriting.answers import FORMATS, read_answer
from r2med_ray.rewriting.generation_files import end_of, read_generations, text_of
from r2med_ray.rewriting.own_methods import load_methods
from r2med_ray.settings.config_files import load_config
from r2med_ray.settings.templates import load_template
from r2med_ray.settings.yaml_files import read_yaml
from r2med_ray.storage.ids import IdReader
from r2med_ray.storage.jsonl import read_jsonl
from r2med_ray.types import Query

RUN = b"q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2 1e-3 tag\nq2\tQ0\td1\t1\t-.5\ttag\n"
RANKS = b"q1 d1 1\nq1 d2 2\n"
QRELS = b"q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 2\n"
QRELS_TSV = b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t0\n"
QRELS_JSON = b'{"q_id": "q1", "p_id": "d1", "score": 1}\n{"q_id": "q2", "p_id": ["d1", "d2"]}\n'
RECORDS = b'{"_id": "q1", "id": "q1", "title": null, "text": "fever", "hy_doc": "a", "finish_reason": "stop"}\n'
TSV = b"query_id\ttext\nq1\tfever\nq2\trash\n"
SGML = b"<top>\n<num> Number: 1\n<title> fever\n<desc> Description:\nlong\n</top>\n"
XML = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topics [<!ENTITY a "b">]>\n<topics task="x">'
    b'<topic number="1" type="d"><description>a</description><summary>b &lt; &amp; &#65;</summary></topic></topics>'
)
XML_PLAIN = b'<topics><topic number="1">A patient <b>x</b> <![CDATA[y]]><!-- z --></topic></topics>'
TOPICS_JSON = b'{"topics": [{"id": 1, "text": "fever"}, {"id": "2", "question": "why"}]}'
CONFIG = b"""name: demo
tasks: [MedDemo, {path: ./x, name: own, layout: beir}]
systems:
  - {name: bm25, retriever: bm25}
  - {name: both, retrievers: [bm25, {model: all-MiniLM-L6-v2}], fusion: {method: rrf, k: 60}}
measures: [nDCG@10, R@100]
depth: 100
"""
ALIASES = (
    b"a: &a [x, x]\nb: &b [*a, *a]\nc: {<<: {d: 1}, e: 2001-01-01, f: 0x1F, g: 1_000, h: .inf, i: !!binary aGk=}\n"
)
MODELS = b"""encoders:
  - name: own
    model: ./x
    pooling: mean
    max_length: 64
rerankers:
  - {name: r, kind: maxsim, encoder: own}
language_models:
  - {name: m, model: x/y, kind: openai, base_url: "http://h/v1", key_variable: KEY, sampling: {temperature: 0.5}}
methods:
  - {name: mine, use: replaces}
"""
MTEB = json.dumps(
    {
        "dataset_revision": "r",
        "task_name": "R2MEDBiologyRetrieval",
        "mteb_version": "2.0",
        "scores": {"test": [{"hf_subset": "default", "ndcg_at_10": 0.5, "main_score": 0.5, "languages": ["en"]}]},
    }
).encode()
PACK = {
    "passages.jsonl": b'{"doc_id": "h1", "text": "a", "writer": "w"}\n',
    "labels.jsonl": b'{"query_id": "q1", "doc_id": "h1", "kind": "mimic", "positive_ids": ["d1"], "grade": 0}\n',
}
ROUND = {
    "T_1_hp_id_to_hp.jsonl": b'{"hard_passage_id": "h1", "hard_passage": "a"}\n',
    "T_1_qrel_extent.jsonl": b'{"q_id": "q1", "p_id": "h1", "score": 1}\n',
    "T_1_pos_id_to_hp_ids.jsonl": b'{"pos_id": "d1", "hard_passage_ids": ["h1"]}\n',
}
PROMPT = b"version: 1\nWrite {query} and {{braces}}.\n"
ANSWERS = (
    "<think>I look [3] up</think>\n<answer>Gout is treated.</answer>",
    "Okay.\n</think>\n\nA text<|im_end|>",
    "I'm sorry, but I can't help.",
    "<|begin_search_query|>gout<|end_search_query|> <search>x</search> <|begin_search_result|>",
)
ORDERS = ("[2] > [1] > [3]", "<think>[1] > [2]</think> 2, 1, 3", "1. [3]\n2. [1]\n3. [2]", "**[1]** = [2] > [3]")
GRADES = ("[1]: 5\n[2]: 0.5\n[3]: 2/5", '{"1": 3, "2": "4"}', "Passage 1: relevance 3 (out of 5)", "| [1] | 4 |")
WORDS = (
    '{"error": {"message": "no", "metadata": {"raw": "x"}}}',
    "<html><head><title>502</title></head><body>Bad</body></html>",
    '{"detail": [{"msg": "m"}]}',
)


def parquet(**columns: Sequence[Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), out)
    return out.getvalue()


class Reader(NamedTuple):
    """A reader, and files that it can read, or that are near to such files."""

    read: Callable[[Path], object]
    file: str
    """The name of the file, because some readers go by it."""

    seeds: tuple[bytes, ...]


class AnswerReader(NamedTuple):
    """A reader of texts, and texts that it can read."""

    read: Callable[[str], object]
    seeds: tuple[str, ...]


def documents(layout: str) -> Callable[[Path], object]:
    return lambda path: list(read_documents(path, LAYOUTS[layout], IdReader(path)))


def queries(layout: str) -> Callable[[Path], object]:
    return lambda path: read_queries(path, LAYOUTS[layout], IdReader(path))


def judgements(layout: str) -> Callable[[Path], object]:
    return lambda path: read_qrels(path, LAYOUTS[layout], IdReader(path))


def answer(form: AnswerFormat, text: str) -> object:
    return read_answer(text, form)


def agent(form: AgentFormat, text: str) -> object:
    plain = FORMATS["plain"]
    return form.request_in(text, plain, finish_reason="stop"), form.answer_in(text, plain, finish_reason=None)


def models(path: Path) -> object:
    """Read a models file as `load_catalog` does, without the shipped files, which would take most of the time."""
    values = _read(path)
    return [
        parse_row(section.row_class, given, values[INSTRUCTIONS], path)
        for name, section in SECTIONS.items()
        for given in values[name]
    ]


def generations(path: Path) -> object:
    rows = read_generations(path, [Query(query_id="q1", text="fever")])
    return [(text_of(row), end_of(row)) for row in rows.values()]


TEXTS = parquet(_id=["q1", "q2"], text=["fever", "rash"], title=["", "t"])
LISTS = parquet(**{"query-id": ["q1"], "corpus-ids": [["d1", "d2"]]})
QRELS_PARQUET = parquet(**{"query-id": ["q1"], "corpus-id": ["d1"], "score": [1]})


def pack(files: Mapping[str, bytes], path: Path) -> object:
    """Read a pack, one file of which is at the path."""
    for name in files.keys() - {path.name}:
        (path.parent / name).write_bytes(files[name])
    return read_files(path.parent, "T", {"q1": {"d1": 1}})


CONTRASTS = b'{"query_ids": ["q1", "q2"], "doc_ids": ["d1", "d2"], "kind": "negation"}\n'

READERS: dict[str, Reader] = {
    "run": Reader(trec.read_run, "run.trec", (RUN, RANKS)),
    "run, as trec_eval": Reader(lambda path: read_rows(path, as_trec_eval=True), "run.trec", (RUN, b"# c\n" + RUN)),
    "run, packed": Reader(trec.read_run, "run.trec.gz", (gzip.compress(RUN), RUN)),
    "qrels": Reader(lambda path: trec.read_qrels(path), "qrels.txt", (QRELS, QRELS_TSV, QRELS_JSON)),
    "qrels, comments": Reader(lambda path: trec.read_qrels(path, comments=True), "qrels.txt", (b"# c\n" + QRELS,)),
    "qrels of R2MED": Reader(judgements("r2med"), "qrels.txt", (QRELS, QRELS_JSON)),
    "qrels of BEIR": Reader(judgements("beir"), "test.tsv", (QRELS_TSV, QRELS)),
    "qrels of TREC": Reader(judgements("trec"), "qrels.txt", (QRELS,)),
    "qrels of BRIGHT": Reader(judgements("bright"), "x.jsonl", (b'{"id": "q1", "gold_ids": ["d1"]}\n', QRELS_JSON)),
    "qrels, Parquet": Reader(judgements("nano"), "q.parquet", (QRELS_PARQUET,)),
    "JSON Lines": Reader(lambda path: list(read_jsonl(path)), "x.jsonl", (RECORDS, QRELS_JSON)),
    "documents of R2MED": Reader(documents("r2med"), "corpus.jsonl", (RECORDS,)),
    "documents of BEIR": Reader(documents("beir"), "corpus.jsonl", (RECORDS,)),
    "documents, Parquet": Reader(documents("nano"), "corpus.parquet", (TEXTS,)),
    "queries of R2MED": Reader(queries("r2med"), "query.jsonl", (RECORDS,)),
    "queries of TREC": Reader(queries("trec"), "topics.txt", (TSV, SGML, XML, XML_PLAIN, TOPICS_JSON, RECORDS)),
    "topics": Reader(lambda path: list(read_trec_topics(path)), "topics.xml", (XML, XML_PLAIN, SGML)),
    "topics, JSON": Reader(lambda path: list(read_json_topics(path)), "topics.json", (TOPICS_JSON,)),
    "ranked lists": Reader(read_lists, "lists.parquet", (LISTS,)),
    "generations": Reader(generations, "texts.jsonl", (RECORDS,)),
    "YAML": Reader(read_yaml, "x.yaml", (ALIASES, CONFIG, MODELS)),
    "benchmark file": Reader(load_config, "bench.yaml", (CONFIG, ALIASES)),
    "models file": Reader(models, "models.yaml", (MODELS, ALIASES)),
    "methods file": Reader(load_methods, "models.yaml", (MODELS,)),
    "prompt file": Reader(lambda path: load_template(path, ["query"]), "prompt.txt", (PROMPT,)),
    **{
        f"hard negatives, {name}": Reader(partial(pack, files), name, (content,))
        for files in (PACK, ROUND)
        for name, content in files.items()
    },
    "contrasts": Reader(partial(pack, {"contrasts.jsonl": CONTRASTS}), "contrasts.jsonl", (CONTRASTS,)),
    "results of MTEB": Reader(read_mteb_results, "R2MEDBiologyRetrieval.json", (MTEB,)),
}

ANSWER_READERS: dict[str, AnswerReader] = {
    **{f"answer, {name}": AnswerReader(partial(answer, FORMATS[name]), ANSWERS) for name in FORMATS},
    **{f"agent, {name}": AnswerReader(partial(agent, form), ANSWERS) for name, form in AGENTS.items()},
    "order": AnswerReader(lambda text: read_permutation(text, 3), ORDERS + ANSWERS),
    "grades": AnswerReader(lambda text: read_grades(text, 3, best=5), GRADES + ORDERS),
    "words of a service": AnswerReader(words_of, WORDS),
}
