import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.rewriting.methods import METHODS
from r2med_ray.types import implied_use

LATER = ("intent", "reasoned-query", "diver-qexpand", "thinkqe", "contrast", "mimic", "retrieval-agent")
"""Methods whose texts no key held before uses were part of keys."""

PUBLISHED = ("hyde", "query2doc", "lamer", "search-o1", "search-r1")


def test_a_method_of_ours_is_used_like_a_published_one():
    like = {name: row.expansion_method for name, row in METHODS.items()}

    assert {name: like[name] for name in (*PUBLISHED, *LATER)} == dict.fromkeys((*PUBLISHED, *LATER), "")
    assert {name for name, published in like.items() if published == "query2doc"} == {"keywords", "diagnoses"}
    assert all(published in PUBLISHED for published in like.values() if published)


def test_every_method_has_the_use_that_old_keys_imply():
    early = {name: row for name, row in METHODS.items() if name not in LATER}

    assert {name: row.use for name, row in early.items()} == {
        name: implied_use(row.expansion_method or name) for name, row in early.items()
    }
    assert {row.per_repeat for row in early.values()} == {5}


def test_every_method_says_what_it_means_and_where_it_is_from():
    assert all(row.meaning and row.source for row in METHODS.values())


def test_lamer_and_rounds_of_feedback_are_shown_candidates():
    shown = {name: row for name, row in METHODS.items() if row.needs_candidates}

    assert {name: row.rounds for name, row in shown.items()} == {"lamer": 1, "diver-qexpand": 2, "thinkqe": 3}
    assert METHODS["lamer"].places == ("query", "candidates")
    assert METHODS["diver-qexpand"].places == ("query", "candidates", "earlier")
    assert METHODS["mimic"].places == ("query", "earlier")
    assert METHODS["hyde"].places == ("query",)


def test_the_agents_are_those_that_search():
    assert [name for name, row in METHODS.items() if row.kind == "agent"] == ["search-o1", "search-r1"]
    assert [name for name, row in METHODS.items() if row.kind == "ranker"] == ["retrieval-agent"]


def test_an_unknown_method_gets_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown rewriting method 'hide'\. Did you mean 'hyde'\?"):
        METHODS["hide"]
