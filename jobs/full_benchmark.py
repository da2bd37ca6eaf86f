"""Runs a benchmark as a Ray job: every configured system on every task, then the report.

    python jobs/full_benchmark.py [CONFIG.yaml] [--store URI] [--output URI] [--address ADDRESS] [--set key=value]...
    ray job submit --working-dir . -- python jobs/full_benchmark.py

Without a file it runs the demo, full_benchmark.yaml in the same folder. The same command, run again, resumes the
benchmark.
"""

import argparse
from pathlib import Path

from r2med_ray.benchmark import run_job
from r2med_ray.cli.main import exit_on_user_error
from r2med_ray.cli.messages import show_ray


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Run a benchmark file to its report.")
    default = Path(__file__).with_suffix(".yaml")
    parser.add_argument("config", nargs="?", type=Path, default=default, help="benchmark file [default: the demo]")
    parser.add_argument("--store", help="folder or URI of the artefacts [default: ./store]")
    parser.add_argument("--output", help="folder or URI of the results [default: ./results/NAME]")
    parser.add_argument("--address", default="auto", help="auto, local, or the address of a cluster")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="key=value over the file")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and stop")
    parser.add_argument("--verbose", action="store_true", help="show Ray's own lines too")
    return parser.parse_args()


def main() -> None:
    """Run the job."""
    chosen = arguments()
    show_ray(chosen.verbose)
    run_job(
        chosen.config,
        store=chosen.store,
        output=chosen.output,
        address=chosen.address,
        overrides=chosen.overrides,
        dry_run=chosen.dry_run,
    )


if __name__ == "__main__":
    exit_on_user_error(main)
