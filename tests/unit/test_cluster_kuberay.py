"""The objects of `cluster/` for KubeRay: it knows their fields, a lost job goes on, and idle nodes go."""

import copy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import BaseModel
from ray.serve.schema import ServeDeploySchema

from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.serving import llm_app
from r2med_ray.serving.engines import engine_of
from r2med_ray.settings.pools import CPUS_OF_AN_INGRESS, Pool
from r2med_ray.settings.resources import LanguageModelResources
from tests.unit.cluster_files import (
    KUBERAY_FILES,
    PROJECT,
    REPOSITORY,
    cluster_spec,
    documents,
    pods,
    ray_object,
    text_of,
)  # fmt: skip

SCHEMA: dict[str, Any] = yaml.safe_load(
    (REPOSITORY / "tests" / "data" / "kuberay_schema.yaml").read_text(encoding="utf-8")
)
GPU = "nvidia.com/gpu"


def check(document: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(document)


def test_the_schema_of_kuberays_fields_is_itself_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", KUBERAY_FILES)
def test_an_object_has_only_fields_that_kuberay_knows(name: str) -> None:
    check(ray_object(name))


@pytest.mark.parametrize(
    ("path", "value", "refusal"),
    [
        (["spec", "backofLimit"], 3, "backofLimit"),
        (["spec", "submissionMode"], "K8SJobMode", "K8SJobMode"),
        (["spec", "rayClusterSpec", "enableAutoscaling"], True, "enableAutoscaling"),
        (["spec", "rayClusterSpec", "workerGroupSpecs", 1, "maxReplica"], 8, "maxReplica"),
        (["spec", "rayClusterSpec", "workerGroupSpecs", 1, "maxReplicas"], "8", "'8' is not of type 'integer'"),
        (["spec", "rayClusterSpec", "headGroupSpec", "rayStartParams", "num-cpus"], 0, "0 is not of type 'string'"),
        (["spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "container"], [], "container"),
    ],
)
def test_a_field_that_kuberay_would_drop_or_misread_is_refused(path: list[Any], value: object, refusal: str) -> None:
    changed = copy.deepcopy(ray_object("rayjob.yaml"))
    part: Any = changed
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value

    with pytest.raises(jsonschema.ValidationError, match=refusal):
        check(changed)


@pytest.mark.parametrize("name", KUBERAY_FILES)
def test_beside_kuberays_objects_there_are_only_claims_for_disks(name: str) -> None:
    assert {document["kind"] for document in documents(name)} <= {ray_object(name)["kind"], "PersistentVolumeClaim"}


@pytest.mark.parametrize("name", KUBERAY_FILES)
def test_an_idle_node_of_kuberay_goes_and_the_head_has_no_gpu(name: str) -> None:
    spec = cluster_spec(name)

    assert spec["enableInTreeAutoscaling"] is True
    assert 0 < spec["autoscalerOptions"]["idleTimeoutSeconds"] <= 300
    assert {group["minReplicas"] for group in spec["workerGroupSpecs"]} == {0}
    assert all(group["replicas"] <= group["maxReplicas"] for group in spec["workerGroupSpecs"])
    assert spec["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert GPU not in next(pods(name))["containers"][0]["resources"]["limits"]


@pytest.mark.parametrize("name", KUBERAY_FILES)
def test_there_are_gpu_nodes_on_spot_and_on_demand(name: str) -> None:
    groups = cluster_spec(name)["workerGroupSpecs"]

    found = {}
    for group in groups:
        pod = group["template"]["spec"]
        gpus = pod["containers"][0]["resources"]["limits"].get(GPU, "0")
        found[group["groupName"]] = (gpus, "cloud.google.com/gke-spot" in pod.get("nodeSelector", {}))
    assert found == {"cpu": ("0", False), "gpu-spot": ("1", True), "gpu": ("1", False)}


@pytest.mark.parametrize("name", KUBERAY_FILES)
def test_every_container_runs_the_image_of_this_version_without_root(name: str) -> None:
    image = f"CHANGE-ME-registry/r2med-ray:{PROJECT['version']}-gpu"

    for pod in pods(name):
        # 1000 is the user of cluster/Dockerfile
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
        }
        [container] = pod["containers"]
        assert container["image"] == image
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert container["resources"]["limits"] == container["resources"]["requests"]
        assert not any("value" in variable for variable in container["env"])  # a secret's key, never its value
        # Ray's object store: without the volume, it would have the 64 MB that a container has by default
        assert container["volumeMounts"][0] == {"name": "shm", "mountPath": "/dev/shm"}
        assert pod["volumes"][0]["emptyDir"]["medium"] == "Memory"


@pytest.mark.parametrize("name", KUBERAY_FILES)
def test_a_cluster_takes_jobs_only_with_a_token(name: str) -> None:
    assert cluster_spec(name)["authOptions"] == {"mode": "token"}


def test_a_job_whose_cluster_is_lost_goes_on_from_the_bucket_and_keeps_its_results() -> None:
    claim, job = documents("rayjob.yaml")
    spec = job["spec"]
    words = spec["entrypoint"].split()
    store, output = words[words.index("--store") + 1], words[words.index("--output") + 1]

    assert spec["backoffLimit"] == 3  # each try is a new cluster, whose disks are empty
    assert store.startswith("s3://")
    head = next(pods("rayjob.yaml"))
    [mount] = [mount for mount in head["containers"][0]["volumeMounts"] if mount["name"] == "results"]
    [volume] = [volume for volume in head["volumes"] if volume["name"] == "results"]
    assert Path(output).parent == Path(mount["mountPath"])
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]


def test_a_job_ends_its_cluster_when_it_is_done_and_when_it_hangs() -> None:
    spec = ray_object("rayjob.yaml")["spec"]

    assert spec["shutdownAfterJobFinishes"] is True
    assert spec["ttlSecondsAfterFinished"] == 600
    assert spec["preRunningDeadlineSeconds"] == 2 * 3600
    assert spec["activeDeadlineSeconds"] == 2 * 24 * 3600


def serve_config() -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(ray_object("rayservice.yaml")["spec"]["serveConfigV2"])
    return config


def unknown_keys(given: dict[str, Any], schema: type[BaseModel]) -> set[str]:
    """Return keys that Serve would ignore without a word: its own schema takes any key."""
    return set(given) - set(schema.model_fields)


def test_the_configuration_of_the_service_is_one_that_serve_takes() -> None:
    config = serve_config()
    checked = ServeDeploySchema.model_validate(config)

    assert unknown_keys(config, ServeDeploySchema) == set()
    assert unknown_keys(config["http_options"], type(checked.http_options)) == set()
    for application, schema in zip(config["applications"], checked.applications, strict=True):
        assert unknown_keys(application, type(schema)) == set()


def test_the_models_of_the_service_are_those_of_the_catalogue() -> None:
    rows = load_catalog().language_models
    given = {
        config["model_loading_config"]["model_id"]: config
        for config in serve_config()["applications"][0]["args"]["llm_configs"]
    }

    engines = [
        engine_of(rows[name], Pool(actors=1, cpus=1.0, gpus=1.0), LanguageModelResources())
        for name in ("qwen-7b", "qwen3-8b")
    ]
    assert set(given) == {engine.name for engine in engines}
    for engine in engines:
        config = given[engine.name]
        assert config["model_loading_config"]["model_source"] == engine.source
        assert config["engine_kwargs"] == {**llm_app._streaming(engine), **engine.arguments}
        assert config["placement_group_config"] == {"bundles": [{"CPU": engine.cpus, "GPU": engine.gpus}]}
        assert config["runtime_env"]["env_vars"] == llm_app._environment(engine)
        autoscaling = config["deployment_config"]["autoscaling_config"]
        assert autoscaling["target_ongoing_requests"] == engine.in_flight_per_replica


def test_the_service_has_the_settings_of_a_model_that_a_job_serves_and_no_engine_without_requests() -> None:
    application = serve_config()["applications"][0]["args"]

    ingress = application["ingress_deployment_config"]
    assert ingress == llm_app._INGRESS
    assert ingress["ray_actor_options"]["num_cpus"] == CPUS_OF_AN_INGRESS
    for config in application["llm_configs"]:
        deployment = config["deployment_config"]
        assert deployment["autoscaling_config"]["min_replicas"] == 0
        assert deployment["health_check_period_s"] == llm_app.HEALTH_CHECK_PERIOD_S
        assert deployment["ray_actor_options"] == {"num_cpus": 0}
        assert config["experimental_configs"] == {"stream_batching_interval_ms": llm_app.STREAM_INTERVAL_MS}


def test_the_version_of_kuberay_is_named_by_the_files_and_by_the_schema() -> None:
    schema = (REPOSITORY / "tests" / "data" / "kuberay_schema.yaml").read_text(encoding="utf-8")

    assert "ray.io/v1 as KubeRay 1.6 has it" in schema
    for name in (*KUBERAY_FILES, "README.md"):
        assert "KubeRay 1.6.0 or newer" in text_of(name)
