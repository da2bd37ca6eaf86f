"""The command that runs the demo, with the benchmark file that comes with the package."""

from pathlib import Path

from r2med_ray.cli.messages import show_ray
from r2med_ray.cli.options import AddressOption, OutputOption, PlanOnlyOption, SetOption, StoreOption, VerboseOption

PACKAGE = Path(__file__).parents[1]


def jobs_folder() -> Path:
    """Return the folder of the benchmark files: inside of an installed package, or beside it in a checkout."""
    inside = PACKAGE / "jobs"
    return inside if inside.is_dir() else PACKAGE.parent / "jobs"


def demo(
    store: StoreOption = None,
    output: OutputOption = None,
    address: AddressOption = "auto",
    overrides: SetOption = None,
    dry_run: PlanOnlyOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Run the demo: three tiny tasks that come with the package, on this machine, without a hub or a GPU."""
    from r2med_ray.benchmark import run_job

    show_ray(verbose)
    file = jobs_folder() / "full_benchmark.yaml"
    run_job(file, store=store, output=output, address=address, overrides=overrides or [], dry_run=dry_run)
