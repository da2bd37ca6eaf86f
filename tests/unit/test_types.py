"""The values that the parts of the flow pass on."""

import pytest

from r2med_ray.storage.keys import fingerprint_queries
from r2med_ray.types import Expansion, Query, Use


def fingerprinted(*expansions: Expansion) -> str:
    return fingerprint_queries([Query(query_id="1", text="rash", expansions=expansions)])


@pytest.mark.parametrize(("method", "use"), [("query2doc", "joined"), ("hyde", "averaged"), ("my-own", "averaged")])
def test_a_text_is_used_as_its_method_implies_unless_it_is_told(method: str, use: Use) -> None:
    assert Expansion(text="a", method=method).use == use
    assert Expansion(text="a", method=method) == Expansion(text="a", method=method, use=use)
    assert Expansion(text="a", method=method, use="alone").use == "alone"


def test_a_use_that_the_method_implies_leaves_the_keys_of_old_stores() -> None:
    # The first 32 digits of the sha256 of [["1","rash",[["a","hyde",false],["b","query2doc",true]]]], which has no
    # use.
    old = "2fd4fbe0e49a47d2aea47113296e1e08"

    assert (
        fingerprinted(Expansion(text="a", method="hyde"), Expansion(text="b", method="query2doc", reasoning=True))
        == old
    )


def test_another_ratio_of_repetition_is_another_key() -> None:
    usual, other = (Expansion(text="a", method="hyde", per_repeat=number) for number in (5, 3))

    assert fingerprinted(usual) == fingerprinted(Expansion(text="a", method="hyde")) != fingerprinted(other)


def test_every_other_use_is_another_key() -> None:
    uses: tuple[Use, ...] = ("joined", "averaged", "alone", "replaces", "subtracted")

    assert len({fingerprinted(Expansion(text="a", method="hyde", use=use)) for use in uses}) == 5
