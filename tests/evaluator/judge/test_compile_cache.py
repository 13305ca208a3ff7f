"""What judges keep for later ones, and when they keep nothing."""

import os
from importlib.util import cache_from_source
from pathlib import Path
from types import SimpleNamespace

import pytest

from egg_graph.evaluator import LocalEvaluator
from egg_graph.evaluator.judge import compile_cache
from egg_graph.evaluator.sandbox import landlock
from egg_graph.knowledge import load_hardware
from egg_graph.schema import Candidate, KernelTask
from tests.sample import thorough

REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

ROWS = 64

def get_inputs():
    return [torch.randn(ROWS, 32)]
"""


@pytest.fixture(autouse=True)
def confined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: landlock.LEAST_ABI)


def test_the_folder_is_the_users_own_and_of_these_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = compile_cache.cache_folder()
    folder = compile_cache.open_cache(place)
    assert isinstance(folder, Path)
    assert folder.is_dir()
    assert "torch-" in folder.name
    assert place.stat().st_mode & 0o077 == 0
    assert compile_cache.open_cache(place) == folder


def test_what_is_older_than_last_month_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_cache.time, "gmtime", lambda: SimpleNamespace(tm_year=2026, tm_mon=1))
    for month in ("2025-11", "2025-12"):
        (tmp_path / month / "inductor").mkdir(parents=True)
    tmp_path.chmod(0o700)
    assert isinstance(compile_cache.open_cache(tmp_path), Path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["2025-12", "2026-01"]


def test_nothing_is_kept_where_others_might_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    assert "others may write" in str(compile_cache.open_cache(tmp_path))
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert "Landlock" in str(compile_cache.open_cache(tmp_path / "mine"))
    assert not (tmp_path / "mine").exists()


def test_the_driver_module_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    class Active:
        """Triton's driver: it compiles its module unless it finds it in its cache."""

        @property
        def utils(self) -> None:
            module = Path(os.environ["TRITON_CACHE_DIR"]) / "abc" / "cuda_utils.so"
            if not module.exists():
                compiled.append(module)
                module.parent.mkdir(parents=True)
                module.write_text("code")

    monkeypatch.setattr("triton.runtime.driver", SimpleNamespace(active=Active()))
    (tmp_path / "kept").mkdir()
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / name / "triton"))
        copy = compile_cache.compiled_driver(tmp_path / name, tmp_path / "kept")
        assert copy is not None
        assert (copy / "abc" / "cuda_utils.so").read_text() == "code"
    assert len(compiled) == 1
    assert [entry.name for entry in (tmp_path / "kept").iterdir()] == ["driver"]


def test_pythons_compiled_modules_are_kept_where_pytorch_lies_there_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "torch" / "__init__.py"
    monkeypatch.setattr(compile_cache, "find_spec", lambda name: SimpleNamespace(origin=str(source)))
    place = compile_cache.bytecode_environment(tmp_path / "mine")
    assert Path(place["PYTHONPYCACHEPREFIX"]).is_relative_to(tmp_path / "mine")
    assert place["PYTHONDONTWRITEBYTECODE"] == "", "Python takes no text for not set"
    beside = Path(cache_from_source(str(source)))
    beside.parent.mkdir(parents=True)
    beside.touch()
    assert compile_cache.bytecode_environment(tmp_path / "mine") == {}
    beside.unlink()
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert compile_cache.bytecode_environment(tmp_path / "mine") == {}


@thorough
def test_a_judge_and_its_fork_servers_keep_what_they_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compile_cache, "find_spec", lambda name: SimpleNamespace(origin="/nowhere/torch/__init__.py"))
    with LocalEvaluator(device="none") as evaluator:
        evaluator.environment()
        task = KernelTask(reference=REFERENCE, name="n", target=load_hardware("h200"), precision="ieee")
        evaluator.evaluate(task, Candidate(source=REFERENCE, author="t", stage="tensor_tiling", mode="seed"))
    kept = list(tmp_path.rglob("*.pyc"))
    assert {"fake_tensor", "judge", "fork_server_process", "interpreted"} <= {path.name.split(".")[0] for path in kept}
    assert not any("job-" in str(path) for path in kept), "no candidate's process writes there"
