"""Has a language model write hard negatives, checks them, and writes them as packs, one per task and round.

    python jobs/generate_hard_negatives.py [CONFIG.yaml] [--store URI] [--output FOLDER] [--set key=value]...
    python jobs/generate_hard_negatives.py --dry-run                    the plan
    python jobs/generate_hard_negatives.py --audit PACK/audit.csv       what a person's verdicts in the sheet say

The same command, run again, resumes the round: every text of a model is kept as soon as it is there.
"""

import argparse
from pathlib import Path

from r2med_ray.cli.main import exit_on_user_error
from r2med_ray.negatives.audit_sheets import agreement, as_json
from r2med_ray.negatives.generation_job import run_generation
from r2med_ray.negatives.generation_settings import GenerationConfig
from r2med_ray.settings.config_files import load_settings
from r2med_ray.workbench.job_folders import default_base, lasting


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Generate hard negatives.")
    default = Path(__file__).with_suffix(".yaml")
    parser.add_argument("config", nargs="?", type=Path, default=default, help="settings [default: the demo's]")
    parser.add_argument("--store", help="folder or URI of the artefacts [default: ./store]")
    parser.add_argument("--output", type=Path, help="folder of the packs [default: ./hard_negatives/NAME]")
    parser.add_argument("--address", default="auto", help="auto, local, or the address of a cluster; none for no Ray")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="key=value over the file")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and stop")
    parser.add_argument("--audit", type=Path, help="a sheet that came back; nothing is generated")
    return parser.parse_args()


def main() -> None:
    """Run the job."""
    chosen = arguments()
    if chosen.audit:
        print(as_json(agreement(chosen.audit)))  # noqa: T201
        return
    config = load_settings(GenerationConfig, chosen.config, chosen.overrides)
    run_generation(
        config,
        store=lasting("store", chosen.store or default_base() / "store"),
        output=Path(lasting("output", chosen.output or default_base() / "hard_negatives" / config.name)),
        address=None if chosen.address == "none" else chosen.address,
        dry_run=chosen.dry_run,
    )


if __name__ == "__main__":
    exit_on_user_error(main)
