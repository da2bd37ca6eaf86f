"""Writes a commented benchmark file for a folder of the user's own, as a start."""

import os
import re
from pathlib import Path

from r2med_ray.corpus.layouts import find_files
from r2med_ray.errors import ConfigError, DataError

GUESSED = (("r2med", ("test",)), ("beir", ("test", "dev", "train")), ("trec", ("test",)))
"""Layouts that a folder is tried as, in this order, each with the splits that are tried."""

TEXT = """\
# Run it:    r2med run {file}           Plan it first:    r2med plan {file}
# Every key: r2med config               Every model:      r2med models
# Paths start at the folder of this file.
name: "{name}"
tasks:
  - {{path: "{path}", layout: {layout}, name: "{name}"{split}}}
  # - R2MED/*                         # tasks that are known by name; see `r2med tasks`
baseline: bm25                        # the system that the others are tested against for significance
measures: [nDCG@10, R@10, R@100, AP@100, RR]
depth: 100                            # documents kept per query
# queries: 20                         # only the first 20 queries of each task, to try something out
# models: my_models.yaml              # rows of your own: encoders, rerankers, language models

systems:                              # rewriter? -> retriever(s) -> fusion? -> reranker?
  - name: bm25
    retriever: bm25                   # bm25-lucene scores as Anserini and Pyserini do
  - name: minilm
    retriever: all-MiniLM-L6-v2       # comes with the package and runs on a CPU
  - name: hybrid
    retrievers: [bm25, all-MiniLM-L6-v2]
    fusion: {{method: rrf}}
  # - name: hybrid+maxsim             # reorders the first 20 documents
  #   retrievers: [bm25, all-MiniLM-L6-v2]
  #   fusion: {{method: rrf}}
  #   reranker: {{model: maxsim-minilm, depth: 20}}
  # - name: bm25+hyde                 # a language model writes a passage for each query
  #   rewriter: {{method: hyde, llm: qwen-7b}}
  #   retriever: bm25
"""


def new_benchmark(folder: Path, file: Path) -> str:
    """Return the text of a benchmark file for a folder.

    Args:
        folder: a collection in one of the layouts of `GUESSED`.
        file: where the text is going to be written.

    Raises:
        ConfigError: there is no such folder, or no layout fits; says what each layout needs.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder")
    layout, split = guess_layout(folder)
    name = re.sub(r"[^\w.-]+", "-", folder.resolve().name).strip("-") or "mine"
    path = os.path.relpath(folder.absolute(), file.absolute().parent)
    shown_split = "" if split == "test" else f", split: {split}"
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return TEXT.format(file=file, name=name, path=escaped, layout=layout, split=shown_split)


def guess_layout(folder: Path) -> tuple[str, str]:
    """Return the first layout, and its split, whose files a folder has.

    Raises:
        ConfigError: no layout fits; says what each layout needs.
    """
    lacking = []
    for layout, splits in GUESSED:
        for split in splits:
            try:
                find_files(folder, layout, split)
            except DataError as error:
                lacking.append(str(error))
            else:
                return layout, split
    raise ConfigError("\n  ".join([f"{folder} has the files of no layout:", *lacking]))
