"""Ctrl-C says what is stored, and that the same command goes on."""

import os
import time
from pathlib import Path

import pytest

from r2med_ray.cli.main import exit_on_user_error
from r2med_ray.errors import InterruptedByUser
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.workbench.interrupting import DATES_LAG_S, said_plainly


def test_ctrl_c_says_what_is_stored_and_that_the_same_command_goes_on(
    store: ArtifactStore, capsys: pytest.CaptureFixture[str]
) -> None:
    def job() -> None:
        with said_plainly(store):
            for kind, number in (("vectors", 1), ("vectors", 2), ("run", 1)):
                with store.create(ArtifactKey(kind, {"number": number})):
                    pass
            raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        exit_on_user_error(job)

    assert ended.value.code == 130
    assert capsys.readouterr().err == (
        f"ended by Ctrl-C. Stored since it began, in {store.place.shown}: 1 × run, 2 × vectors. "
        "What was being made is lost, and nothing else: the same command goes on with what is left\n"
    )


def test_what_is_wrong_is_no_ctrl_c(store: ArtifactStore) -> None:
    with pytest.raises(ValueError, match="broken"), said_plainly(store):
        raise ValueError("broken")


def test_what_was_stored_earlier_is_not_counted(store: ArtifactStore) -> None:
    with pytest.raises(InterruptedByUser, match="nothing"):
        _interrupt(store, dated_before_s=2 * DATES_LAG_S)


def test_what_a_file_system_dates_by_its_last_tick_or_in_whole_seconds_is_counted(store: ArtifactStore) -> None:
    with pytest.raises(InterruptedByUser, match="1 × vectors"):
        _interrupt(store, dated_before_s=0.9 * DATES_LAG_S)


def _interrupt(store: ArtifactStore, *, dated_before_s: float) -> None:
    """Store vectors that are dated some seconds before they are written, and press Ctrl-C."""
    with said_plainly(store):
        began = time.time()
        with store.create(ArtifactKey("vectors", {})) as writer:
            writer.write("some", b"")
        (manifest,) = Path(store.root).rglob("*manifest.json")
        os.utime(manifest, (began - dated_before_s,) * 2)
        raise KeyboardInterrupt
