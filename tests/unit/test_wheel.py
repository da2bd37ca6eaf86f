"""A wheel stands alone: it holds every file of the package and the benchmark files, and runs without the checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "r2med_ray"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that is built from the checkout."""
    pytest.importorskip("hatchling", reason="hatchling, of the extra `dev`, is not installed in this environment")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def unpacked(wheel: Path) -> Path:
    """The content of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(wheel.parent / "unpacked")
    return wheel.parent / "unpacked"


def r2med(unpacked: Path, folder: Path, *arguments: str) -> str:
    """Run the program of the wheel in an empty folder, and return what it prints."""
    program = f"import r2med_ray.cli.main as m; assert m.__file__.startswith({str(unpacked)!r}); m.main()"
    finished = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(unpacked), *sys.path[1:]])},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def files_below(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_has_every_file_of_the_package_and_every_benchmark_file(unpacked: Path) -> None:
    jobs = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "jobs").rglob("*.yaml")}

    assert "jobs/full_benchmark.yaml" in jobs
    assert files_below(unpacked / "r2med_ray") == files_below(PACKAGE) | jobs
    assert {path.name for path in unpacked.iterdir()} == {"r2med_ray", "r2med_ray-0.1.0.dist-info"}


def test_the_program_of_the_wheel_plans_the_demo_without_the_checkout(unpacked: Path, tmp_path: Path) -> None:
    assert "Run the demo" in r2med(unpacked, tmp_path, "demo", "--help")
    plan = r2med(unpacked, tmp_path, "demo", "--dry-run", "--address", "local")

    assert "Demo-Posts" in plan
    assert "hybrid+maxsim" in plan
    assert list(tmp_path.iterdir()) == []


def test_pip_installs_the_wheel_into_an_environment_of_its_own_and_the_program_runs_there(
    wheel: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel]
    subprocess.run(pip, check=True, capture_output=True)
    # What the wheel requires is lent by this environment, in which it would take minutes to install it again.
    [packages] = environment.glob("lib/*/site-packages")
    (packages / "lent.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    finished = subprocess.run(
        [environment / "bin" / "r2med", "demo", "--dry-run", "--address", "local"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
    )
    where = subprocess.run(
        [python, "-c", "import r2med_ray; print(r2med_ray.__file__)"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
    )

    assert finished.returncode == 0, finished.stderr
    assert "hybrid+maxsim" in finished.stdout
    assert where.stdout.startswith(str(packages))


def test_a_benchmark_file_of_the_wheel_finds_what_it_names(unpacked: Path, tmp_path: Path) -> None:
    planned = r2med(unpacked, tmp_path, "plan", str(unpacked / "r2med_ray/jobs/full_benchmark.yaml"))

    assert "bm25+hyde" in planned


def test_the_package_alone_loads_the_public_door_when_it_is_asked_for_and_little_else() -> None:
    program = """
import sys
before = set(sys.modules)
import r2med_ray
def loaded(): return {name.partition('.')[0] for name in set(sys.modules) - before}
assert loaded() - sys.stdlib_module_names == {'r2med_ray'}, loaded()
assert {name for name in sys.modules if name.startswith('r2med_ray.')} == set()
assert {'Workbench', 'open_workbench'} <= set(dir(r2med_ray))
r2med_ray.open_workbench
print(*sorted(loaded() & {'ray', 'torch', 'transformers', 'faiss', 'scipy', 'sentence_transformers', 'typer'}))
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == ""


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        pytest.param({"python3": (3, 12)}, "python3", id="by-any-name"),
        pytest.param({"python3.12": (3, 12), "python3": (3, 10)}, "python3.12", id="too-old-is-passed-over"),
        pytest.param({"python3": (3, 15), "python": (3, 11)}, "python", id="too-new-is-passed-over"),
        pytest.param({"python3": (3, 10)}, "no Python from 3.11 to 3.14", id="none"),
    ],
)
def test_make_takes_the_first_python_that_the_pins_allow(
    versions: dict[str, tuple[int, int]], expected: str, tmp_path: Path
) -> None:
    for name, version in versions.items():
        # What stands for a Python runs the real one, with another version.
        path = tmp_path / name
        change = f"import sys; sys.version_info = {version}; exec(sys.argv[1])"
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{change}" "$2"\n')
        path.chmod(0o755)
    make = shutil.which("make")
    assert make
    asked = subprocess.run(
        [make, "--eval", "which: ; @:$(info $(PYTHON))", "which"],
        cwd=REPOSITORY,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )

    if expected in versions:
        assert (asked.returncode, asked.stdout) == (0, f"{expected}\n")
    else:
        assert asked.returncode != 0
        assert expected in asked.stderr
