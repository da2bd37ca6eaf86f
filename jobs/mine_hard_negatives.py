"""Mines hard negatives as a Ray job: the best non-positives of several retrievers, checked by a cross-encoder.

    python jobs/mine_hard_negatives.py [CONFIG.yaml] [--store URI] [--output FOLDER] [--address ADDRESS] [--set K=V]

Without a file it mines a task of the demo, mine_hard_negatives.yaml in the same folder. The output is a new folder
with an evaluation pack and training files (`r2med_ray.negatives.mined_files`). A killed job, run again, goes on.
"""

import argparse
from pathlib import Path

from r2med_ray import open_workbench
from r2med_ray.cli.main import exit_on_user_error
from r2med_ray.negatives.mined_files import write_mined
from r2med_ray.negatives.mined_settings import MiningConfig
from r2med_ray.negatives.mining import mine
from r2med_ray.settings.config_files import load_settings
from r2med_ray.storage.new_folders import require_new
from r2med_ray.workbench.job_folders import default_base, lasting


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Mine hard negatives of a task.")
    default = Path(__file__).with_suffix(".yaml")
    parser.add_argument("config", nargs="?", type=Path, default=default, help="settings [default: a demo]")
    parser.add_argument("--store", help="folder or URI of the artefacts [default: ./store]")
    parser.add_argument("--output", help="folder that doesn't exist [default: ./mined/NAME]")
    parser.add_argument("--address", default="auto", help="auto, local, or the address of a cluster")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="key=value over the file")
    return parser.parse_args()


def main() -> None:
    """Run the job."""
    chosen = arguments()
    config = load_settings(MiningConfig, chosen.config, chosen.overrides)
    output = Path(lasting("output", chosen.output or default_base() / "mined" / config.name)).expanduser()
    require_new(output)
    with open_workbench(
        lasting("store", chosen.store or default_base() / "store"),
        address=chosen.address,
        models=config.models,
        resources=config.resources,
        name=config.name,
    ) as bench:
        mined = mine(bench, config)
    write_mined(mined, output)
    for what, counts in (("counts", mined.counts), ("verdicts", mined.verdicts)):
        print(f"{what}: {', '.join(f'{name} {count}' for name, count in counts.items())}")  # noqa: T201
    print(f"pack: {output}/pack")  # noqa: T201


if __name__ == "__main__":
    exit_on_user_error(main)
