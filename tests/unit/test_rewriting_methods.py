from r2med_ray.retrieval.query_construction import JOINED
from r2med_ray.rewriting.methods import METHODS

PUBLISHED = ("hyde", "query2doc", "lamer", "search-o1", "search-r1")


def test_a_method_of_ours_is_used_like_a_published_one():
    like = {name: row.like for name, row in METHODS.items()}

    assert {name: like[name] for name in PUBLISHED} == dict.fromkeys(PUBLISHED, "")
    assert {name for name, published in like.items() if published == JOINED} == {"keywords", "diagnoses"}
    assert all(published in PUBLISHED for published in like.values() if published)


def test_only_lamer_is_shown_candidates():
    assert [name for name, row in METHODS.items() if row.needs_candidates] == ["lamer"]
