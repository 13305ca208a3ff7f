"""Wheel and editable install both find every prompt."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from egg_graph.knowledge import prompt_files
from tests.paths import ROOT
from tests.sample import thorough

SHIPPED = {".j2", ".toml", ".txt"}
REPORT = """
import json
from egg_graph.knowledge import hardware_keys, load_principles, prompt_files, prompt_text
names = [name for suffix in (".j2", ".toml", ".txt") for name in prompt_files(suffix)]
assert all(prompt_text(name) for name in names)
import egg_graph
print(json.dumps([sorted(names), len(hardware_keys()), len(load_principles()), egg_graph.__file__]))
"""


def expected() -> list[str]:
    return sorted(file.name for file in (ROOT / "prompts").iterdir() if file.suffix in SHIPPED)


def test_a_folder_among_the_prompts_is_no_prompt():
    (ROOT / "prompts" / "__pycache__").mkdir(exist_ok=True)
    assert "__pycache__" not in prompt_files("")


def report(*, path: Path | None, python: str = sys.executable, cwd: Path) -> list:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [python, "-c", REPORT], env=environment, cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sources(folder: Path) -> Path:
    """A copy of what a build needs, so that it leaves nothing in the checkout."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
        else:
            (folder / name).write_text("absent\n")
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=skip)
    shutil.copytree(ROOT / "prompts", folder / "prompts", ignore=skip)
    return folder


def pip(*arguments: str, python: str = sys.executable) -> None:
    command = [python, "-m", "pip", *arguments, "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prompts_are_one_flat_package():
    assert (ROOT / "prompts" / "__init__.py").is_file()
    folders = [entry.name for entry in (ROOT / "prompts").iterdir() if entry.is_dir()]
    assert [name for name in folders if name != "__pycache__"] == []


def test_every_package_on_disk_is_declared():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = [file.parent.relative_to(ROOT / "src") for file in (ROOT / "src").rglob("__init__.py")]
    assert sorted(declared) == sorted([*(".".join(folder.parts) for folder in found), "egg_graph.prompts"])


def test_plain_sources_find_the_checkouts_prompts(tmp_path):
    names, gpus, principles, _ = report(path=ROOT / "src", cwd=tmp_path)
    assert names == expected() and gpus >= 7 and principles >= 30


@pytest.mark.slow
def test_a_wheel_carries_every_prompt(tmp_path):
    (tmp_path / "sources").mkdir()
    pip("install", "--target", str(tmp_path / "installed"), str(sources(tmp_path / "sources")))
    shutil.rmtree(tmp_path / "sources")
    names, gpus, principles, home = report(path=tmp_path / "installed", cwd=tmp_path)
    assert names == expected() and gpus >= 7 and principles >= 30
    assert home.startswith(str(tmp_path / "installed"))


@pytest.mark.slow
@thorough
def test_an_editable_install_finds_every_prompt(tmp_path):
    (tmp_path / "sources").mkdir()
    folder = sources(tmp_path / "sources")
    # A bare environment that sees this one's packages, so that nothing has to be downloaded.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True, timeout=60)
    python = str(tmp_path / "venv" / "bin" / "python")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = tmp_path / "venv" / "lib" / version / "site-packages"
    theirs = [entry for entry in sys.path if entry.endswith("site-packages")]
    (own / "zz_borrowed.pth").write_text("\n".join(theirs) + "\n")
    pip("install", "--editable", str(folder), "--ignore-installed", python=python)
    names, gpus, principles, home = report(path=None, python=python, cwd=tmp_path)
    assert names == expected() and gpus >= 7 and principles >= 30
    assert home.startswith(str(folder))
