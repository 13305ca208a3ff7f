"""Code that was compiled before is given to the same kernel again, and nothing is written where a candidate points."""

import json
import os
import re
from pathlib import Path

import pytest
import torch

from egg_graph.evaluator.gpuless import cache_filling, kept_code
from egg_graph.evaluator.gpuless.compilation import TargetCompiler
from egg_graph.evaluator.gpuless.kept_code import KeptCode, copy_cache
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Candidate, Hardware, KernelTask
from tests.evaluator.pretended_gpu import call_on_pretended_gpu, compiling_ladder, kernels_in
from tests.paths import CORPUS

PROBLEM = re.compile('problem = "(.+)"')


def written(folder: Path) -> dict[Path, int]:
    """When each compiled kernel was written [ns]."""
    return {path: path.stat().st_mtime_ns for path in (folder / "triton").glob("*/*.cubin")}


def test_a_kernel_that_is_judged_again_is_not_compiled_again(
    h200: Hardware, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_filling, "RECORD_SECONDS", 60.0)  # the first job waits for imports, long on a busy host
    source = (CORPUS / "right" / "softmax_online.py").read_text()
    reference = (CORPUS / "problems" / f"{PROBLEM.search(source)[1]}.py").read_text()
    task = KernelTask(name="softmax", reference=reference, target=h200, precision="tf32")
    problem = Problem(task, 1, torch.device("cpu"))
    candidate = Candidate(source=source, author="t", stage="tensor_tiling", mode="tune", config={})
    with compiling_ladder(tmp_path, KeptCode(tmp_path / "kept")) as ladder:

        def fill(judged: Candidate, folder: Path) -> str:
            call = cache_filling.recording_call(ladder, problem)
            return cache_filling.fill_cache(ladder, task, judged, call, folder)

        with ladder.jobs.job_folder(candidate) as folder:
            first, compiled = fill(candidate, folder), kernels_in(folder)
        assert first and compiled
        monkeypatch.setattr(TargetCompiler, "fill_cache", lambda *asked: pytest.fail("compiled again"))
        with ladder.jobs.job_folder(candidate) as folder:
            assert fill(candidate, folder) == first
            assert kernels_in(folder) == compiled
            given = written(folder)
            call_on_pretended_gpu([(folder, reference, {})], h200)
            assert kernels_in(folder) == compiled and given.items() <= written(folder).items(), "its process finds them"
        other = candidate.model_copy(update={"source": source + "\n# another text\n"})
        with ladder.jobs.job_folder(other) as folder, pytest.raises(pytest.fail.Exception, match="compiled again"):
            fill(other, folder)
        monkeypatch.setattr(kept_code, "evaluator_digest", lambda: "of a later evaluator")
        with ladder.jobs.job_folder(candidate) as folder, pytest.raises(pytest.fail.Exception, match="compiled again"):
            fill(candidate, folder)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache of Triton with one kernel, as a candidate's process left it, and a link to what is not its own."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "seed").write_text("7")
    made = tmp_path / "made"
    (made / "ABC").mkdir(parents=True)
    (made / "ABC" / "kernel.cubin").write_bytes(b"code")
    files = json.dumps({"child_paths": {"kernel.cubin": f"{made}/ABC/kernel.cubin"}})
    (made / "ABC" / "__grp__kernel.json").write_text(files)
    (made / "ABC" / "seed").symlink_to(tmp_path / "secret" / "seed")
    (made / "LINK").symlink_to(tmp_path / "secret")
    return made


def test_no_link_is_followed_from_where_it_was_compiled(cache: Path, tmp_path: Path) -> None:
    copy_cache(cache, tmp_path / "given")
    names = {str(path.relative_to(tmp_path / "given")) for path in (tmp_path / "given").rglob("*")}
    assert names == {"ABC", "ABC/kernel.cubin", "ABC/__grp__kernel.json"}
    assert f"{tmp_path}/given/ABC/kernel.cubin" in (tmp_path / "given/ABC/__grp__kernel.json").read_text()


@pytest.mark.parametrize("trap", ["the cache", "an entry", "a file"])
def test_nothing_is_written_through_a_link_of_a_candidate(cache: Path, tmp_path: Path, trap: str) -> None:
    kept, given, outside = KeptCode(tmp_path / "kept"), tmp_path / "given", tmp_path / "outside"
    kept.keep("key", cache, "fingerprint")
    outside.mkdir()
    if trap == "the cache":
        given.symlink_to(outside)
    elif trap == "an entry":
        given.mkdir()
        (given / "ABC").symlink_to(outside)
    else:
        (given / "ABC").mkdir(parents=True)
        (given / "ABC" / "kernel.cubin").symlink_to(outside / "kernel.cubin")
    assert kept.give("key", given) == ("fingerprint" if trap == "a file" else None)
    assert not os.listdir(outside)


def test_what_is_too_large_is_not_kept(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_code, "MOST_BYTES", 3)
    kept = KeptCode(tmp_path / "kept")
    kept.keep("key", cache, "fingerprint")
    assert kept.give("key", tmp_path / "given") is None
    with pytest.raises(OSError, match="more than 3 bytes"):
        copy_cache(cache, tmp_path / "given")


def test_what_was_used_longest_ago_goes_first(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_code, "MOST_KEPT", 2)
    kept = KeptCode(tmp_path / "kept")
    for age, key in enumerate(("first", "second")):
        kept.keep(key, cache, key)
        os.utime(tmp_path / "kept" / key, (1000.0 + age, 1000.0 + age))
    assert kept.give("first", tmp_path / "given") == "first"
    kept.keep("third", cache, "third")
    assert kept.give("second", tmp_path / "given") is None
    assert kept.give("first", tmp_path / "given") == "first"
