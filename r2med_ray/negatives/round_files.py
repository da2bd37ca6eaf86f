"""The folder of a round: a pack that the evaluation reads, the record of every attempt, and a manifest that counts.

    <output>/<task>/round-<n>/
        passages.parquet    doc_id, text, writer, and what the passage was made with and from
        labels.parquet      query_id, doc_id, kind, positive_ids, grade (0: a label is no judgement)
        records.jsonl       every attempt with what it was made with and from, its checks and the verdict on it
        found_positives.jsonl    the attempts that support their query after all
        controls/           a pack of controls, and the record of every paraphrase
        audit.csv, audit.html    a sheet for a person, see `audit_sheets`
        manifest.json       settings, models, prompts, digests of the files, and the number of each verdict

The folder appears whole or not at all, and what is in it never changes. Several rounds are one pack: `packs:` takes
their folders in any order.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from r2med_ray.errors import ConfigError
from r2med_ray.negatives.audit_sheets import sheet_files
from r2med_ray.negatives.controls import PARAPHRASE, PASSED, RANDOM, RandomControl
from r2med_ray.negatives.drafts import FOUND_POSITIVE, Draft
from r2med_ray.negatives.generating import Round
from r2med_ray.negatives.material import Material
from r2med_ray.negatives.release_checks import NO_GOLD
from r2med_ray.reporting.file_names import file_names
from r2med_ray.storage.keys import Json, canonical_json
from r2med_ray.storage.new_folders import new_folder

FORMAT = "r2med_ray hard negatives 1"
CANARY = "r2med_ray hard negatives: made for evaluation, keep out of training, 5f0c1c0e-7a53-4f0b-9d5e-2b9b6a3c8d11"

_PASSAGES = pa.schema(
    [
        *((name, pa.string()) for name in ("doc_id", "text", "writer", "kind")),
        ("synthetic", pa.bool_()),
        *((name, pa.string()) for name in ("prompt", "prompt_version", "query_id", "positive_id", "hard_query")),
        ("anchors", pa.list_(pa.string())),
        *((name, pa.int64()) for name in ("seed", "round", "number", "attempt")),
    ]
)
_LABELS = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "doc_id", "kind")),
        ("positive_ids", pa.list_(pa.string())),
        ("grade", pa.int64()),
    ]
)


def round_folder(output: Path, task: str, round_: int) -> Path:
    """Return the folder of a round of a task."""
    return output / file_names([task])[task] / f"round-{round_}"


def round_files(material: Material, made: Round, random: Sequence[RandomControl]) -> dict[str, bytes]:
    """Return path in the folder → content. The same round has the same bytes."""
    paraphrases = [draft for draft in made.paraphrases if draft.verdict == PASSED]
    files = _pack(material, made.released)
    files["records.jsonl"] = _lines(material, made.drafts)
    files["found_positives.jsonl"] = _lines(
        material, (draft for draft in made.drafts if draft.verdict.startswith(FOUND_POSITIVE))
    )
    if paraphrases or random:
        controls = _pack(material, paraphrases, random) | {"records.jsonl": _lines(material, made.paraphrases)}
        files |= {f"controls/{name}": content for name, content in controls.items()}
    files |= sheet_files(material, made)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    manifest = _manifest(material, made, random) | {"files": digests}
    files["manifest.json"] = f"{json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False)}\n".encode()
    return files


def write_round(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write the folder of a round, whole or not at all.

    Raises:
        ConfigError: the folder is there with other passages, labels or settings: what was released stays as it is.
    """
    if folder.exists():
        _require_same(folder, files)
        return folder
    with new_folder(folder) as fresh:
        for name, content in files.items():
            path = fresh / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
    return folder


def _require_same(folder: Path, files: Mapping[str, bytes]) -> None:
    """Check a folder that is there. A person may have filled in its sheet."""
    for name in ("manifest.json", "passages.parquet", "labels.parquet"):
        path = folder / name
        if not path.is_file() or path.read_bytes() != files[name]:
            raise ConfigError(
                f"{folder}: {name} is another one than this round gives, and a released round never changes; set "
                "another `round`, or name another folder with `--output`"
            )


def _pack(material: Material, drafts: Sequence[Draft], random: Sequence[RandomControl] = ()) -> dict[str, bytes]:
    passages = {draft.doc_id: _record(material, draft) for draft in drafts}
    for control in random:
        passages[control.doc_id] = {
            "doc_id": control.doc_id,
            "text": control.text,
            "writer": f"the corpus of {material.task.name}: {control.source}",
            "kind": RANDOM,
            "synthetic": False,
        }
    labels = [
        _label(draft.slot.query_id, draft.doc_id, draft.slot.kind, [draft.slot.positive_id]) for draft in drafts
    ]
    labels += [_label(control.query_id, control.doc_id, RANDOM, []) for control in random]
    unique = {canonical_json(label): label for label in labels}
    return {
        "passages.parquet": _table([row for _, row in sorted(passages.items())], _PASSAGES),
        "labels.parquet": _table([label for _, label in sorted(unique.items())], _LABELS),
    }


def _label(query_id: str, doc_id: str, kind: str, positives: list[str]) -> dict[str, Any]:
    return {"query_id": query_id, "doc_id": doc_id, "kind": kind, "positive_ids": positives, "grade": 0}


def _record(material: Material, draft: Draft) -> dict[str, Any]:
    """Return a draft as plain values, with what wrote it."""
    prompt = "paraphrase" if draft.slot.kind == PARAPHRASE else draft.slot.kind
    return draft.record() | {
        "writer": material.tools.writer.name,
        "synthetic": True,
        "prompt": prompt,
        "prompt_version": material.tools.prompts[prompt].version,
    }


def _manifest(material: Material, made: Round, random: Sequence[RandomControl]) -> dict[str, Json]:
    config, tools, task = material.config, material.tools, material.task
    # Paths, and what changes how fast a round is made, don't belong to what it is.
    settings = config.model_dump(mode="json", exclude={"tasks", "models", "prompts", "resources", "cluster"})
    answers = [check.value for draft in made.drafts for check in draft.checks if check.name == "answer"]
    return {
        "format": FORMAT,
        "canary": CANARY,
        "task": {"name": task.name, "revision": task.revision, "corpus": task.corpus.digest},
        "settings": settings,
        "models": {model.name: dict(model.generation_inputs()) for model in (tools.writer, *tools.judges)},
        "prompts": {
            name: {"version": prompt.version, "digest": prompt.digest} for name, prompt in tools.prompts.items()
        },
        "planned": len(made.slots),
        "attempts": len(made.drafts),
        "verdicts": dict(sorted(made.verdicts.items())),
        "kinds": dict(sorted(Counter(draft.slot.kind for draft in made.released).items())),
        "unfilled": [slot.name for slot in made.unfilled],
        "calibration": {
            judge: {group: dict(sorted(counts.items())) for group, counts in groups.items()}
            for judge, groups in made.calibration.items()
        },
        "without_examples": sum(draft.shortened for draft in made.drafts),
        "without_right_answer": answers.count(NO_GOLD),
        "controls": {
            **dict(sorted(Counter(f"paraphrase: {draft.verdict}" for draft in made.paraphrases).items())),
            "random": len(random),
        },
    }


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> bytes:
    """Return a Parquet file with those values of the rows that the schema names."""
    out = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), out, compression="zstd")
    return bytes(out.getvalue().to_pybytes())


def _lines(material: Material, drafts: Iterable[Draft]) -> bytes:
    return "".join(f"{canonical_json(_record(material, draft))}\n" for draft in drafts).encode()
