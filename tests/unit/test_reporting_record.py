"""The record that a report is made from."""

import subprocess
import sys
from dataclasses import replace

from r2med_ray.reporting.record import versions
from r2med_ray.types import Repairs
from tests.unit.reporting_records import RESULTS, STAGES, record


def test_versions_are_read_without_importing_anything():
    script = (
        "import sys; from r2med_ray.reporting.record import versions; found = versions(); "
        "print(found['ray'], found['torch'], *({'ray', 'torch', 'transformers', 'faiss'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert printed.split() == [versions()["ray"], versions()["torch"]]


def test_a_rate_is_only_known_for_work_that_was_done():
    done, reused = STAGES

    assert done.documents_per_second == 6170.0
    assert reused.documents_per_second is None
    assert replace(done, seconds=0.0).documents_per_second is None


def test_a_query_is_repaired_once_whatever_was_wrong_with_its_answers():
    repairs = Repairs(
        rules={"q1": {"id missing": 2}, "q2": {"id missing": 1, "id repeated": 1}},
        unreadable={"q2": {"empty": 1}, "q3": {"empty": 2, "refusal": 1}},
    )

    assert replace(RESULTS[0], repairs=repairs).num_repaired == 3
    assert repairs.unreadable_answers == {"empty": 3, "refusal": 1}


def test_results_of_a_system_come_in_the_order_of_the_tasks():
    assert list(record(results=RESULTS[::-1]).results_of("first")) == ["Alpha", "Beta"]
