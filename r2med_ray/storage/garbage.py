"""Removes what killed writers left, and artefacts with changed bytes."""

from r2med_ray.storage.artifacts import ArtifactStore


def collect_garbage(
    store: ArtifactStore, *, older_than_s: float, now: float, damaged: bool = False, dry_run: bool = False
) -> list[str]:
    """Remove the attempts that killed writers left. If asked, also remove artefacts with changed bytes.

    Args:
        store: the store to clean.
        older_than_s: an attempt that was changed less than this many seconds ago stays: a job may still write it.
        now: the time in seconds since the epoch.
        damaged: also remove the artefacts that `ArtifactStore.problems` names.
        dry_run: remove nothing.

    Returns:
        The attempts and artefacts that were removed, or would be in a run without `dry_run`.
    """
    attempts = store.unfinished(older_than_s, now)
    broken = sorted({name for name, _ in store.problems()}) if damaged else []
    if not dry_run:
        for path in attempts:
            store.remove_attempt(path)
        for name in broken:
            store.remove(name)
    return [*attempts, *broken]
