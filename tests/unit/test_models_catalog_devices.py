from r2med_ray.models.catalog.devices import batch_limits, best_dtype, pass_inputs
from r2med_ray.models.networks.token_budget import plan_batches


def test_half_precision_only_where_it_is_known_to_gain():
    assert best_dtype("cpu") == "float32"
    assert best_dtype("cuda") in ("bfloat16", "float16")
    assert best_dtype("mps") == "float32"


def test_on_a_cpu_every_text_goes_through_the_model_alone():
    assert plan_batches([3, 1, 3, 200], batch_limits("cpu", 16_384)) == [[3], [0], [2], [1]]


def test_the_key_says_so_of_a_cpu_alone():
    assert pass_inputs("cpu") == {"pass": "one text"}
    assert pass_inputs("cuda") == pass_inputs("cuda:1") == {}


def test_a_token_budget_is_an_upper_bound_on_a_gpu():
    assert batch_limits("cuda", 16_384).most == 16_384
    assert batch_limits("cuda:1", 1000).few == 1000
