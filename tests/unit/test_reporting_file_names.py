"""Names of systems and tasks become safe file names."""

from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.reporting.file_names import file_names


def test_a_safe_name_stays_as_it_is():
    assert file_names(["bm25-r2med", "PMC-Treatment", "hyde+bge@20_v1.5"]) == {
        "bm25-r2med": "bm25-r2med",
        "PMC-Treatment": "PMC-Treatment",
        "hyde+bge@20_v1.5": "hyde+bge@20_v1.5",
    }


def test_da13_a_slash_does_not_make_a_folder():
    assert file_names(["org/model"]) == {"org/model": "org_model"}


def test_da13_names_that_differ_in_case_only_get_different_files_on_any_disk():
    upper, lower = file_names(["A", "a"]).values()

    assert upper.lower() != lower.lower()


def test_da13_a_name_that_means_a_folder_is_replaced():
    for name in ("..", ".", "", "../x", "/etc/passwd", "🩺"):
        (file_name,) = file_names([name]).values()

        assert file_name not in ("", ".", "..")
        assert "/" not in file_name


def test_a_long_name_is_cut_to_what_every_file_system_takes():
    names = file_names(["x" * 300, "x" * 299])

    assert len(set(names.values())) == 2
    assert max(map(len, names.values())) < 120


def test_names_that_become_alike_keep_apart():
    names = file_names(["org/model", "org_model", "org model"])

    assert len(set(names.values())) == 3


def test_no_name_can_take_the_file_of_another():
    taken = file_names(["A", "a"])["A"]

    assert len({name.lower() for name in file_names(["A", "a", taken, taken.replace("~", "_")]).values()}) == 4


@given(st.lists(st.text(max_size=120), unique=True, max_size=8))
def test_file_names_are_plain_and_unique_whatever_the_names(names):
    found = [name.lower() for name in file_names(names).values()]

    assert len(set(found)) == len(names)
    for name in found:
        assert name.isascii()
        assert name.strip("._-")
        assert not set(name) & set('/\\:*?"<>| \n\0')
