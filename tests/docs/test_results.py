"""Numbers in the README are those of the results files that a command wrote."""

import json
from collections.abc import Iterator
from statistics import geometric_mean, median

import pytest
import torch

from egg_graph.bench.figures import Figures
from egg_graph.bench.statistics import summarize
from egg_graph.bench.table import furthest
from egg_graph.bench.values import Results
from egg_graph.bench.writing import read_results
from egg_graph.schema import BadInput
from tests.lab.figures import read_figures
from tests.lab.full_size import FullSizeResults, full_size_page
from tests.lab.full_size import summary as summary_of_full_size
from tests.lab.joined import JoinedResults, join, joined_results
from tests.lab.model_runs_calls import after_calls
from tests.lab.model_runs_parts import parts_worth
from tests.lab.model_runs_so_far import SoFarResults, so_far_page, summarize_so_far
from tests.lab.model_runs_table import ModelRunResults
from tests.lab.model_runs_without import parts_left_out
from tests.lab.model_seeds import SeedResults, seeds_page, summarize_seeds
from tests.lab.survey import read_survey, summary, survey_page
from tests.lab.survey_process import in_a_thread, switched, turned
from tests.lab.times_page import summary as summary_of_times
from tests.lab.times_rows import TimesResults
from tests.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
H200 = ROOT / "docs" / "results" / "examples_h200"


def bench_of(name: str) -> Results:
    path = ROOT / "docs" / "results" / f"{name}.json"
    return read_results(json.loads(path.read_text(encoding="utf-8")), Results)


def test_the_table_of_the_readme_is_the_one_that_was_written():
    written = [line for line in H200.with_suffix(".md").read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    assert len(written) >= 10
    assert "\n".join(written) in README


def test_the_summary_of_the_readme_follows_from_the_rows():
    data = json.loads(H200.with_suffix(".json").read_text(encoding="utf-8"))
    data.pop("summary")
    summary = summarize(Results.model_validate(data).rows)
    assert f"Geometric mean {summary.geometric_mean.value:.2f}, median {summary.median.value:.2f}" in README


LEVELS_1_2 = ROOT / "docs" / "results" / "kernelbench_levels_1_2_h200.json"


def levels_1_2() -> tuple[JoinedResults, Results, Figures]:
    data = json.loads(LEVELS_1_2.read_text(encoding="utf-8"))
    files = [LEVELS_1_2.parent / f"{source['file']}.json" for source in data["sources"]]
    return joined_results(files, LEVELS_1_2, data["of"])


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """The numbers and texts of a JSON value, with the path of each."""
    if isinstance(value, dict | list | tuple):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, f"{path}/{key}")
    else:
        yield path, value


def test_what_the_readme_says_of_kernelbench_follows_from_the_rows():
    data = json.loads(LEVELS_1_2.read_text(encoding="utf-8"))
    joined, merged, figures = levels_1_2()
    assert data["rows"] == joined.model_dump(mode="json")["rows"]
    written, now = dict(leaves(data["summary"])), dict(leaves(figures.summary()))
    numbers = {path: value for path, value in now.items() if isinstance(value, float)}
    assert {path: written[path] for path in numbers} == pytest.approx(numbers, rel=1e-12), "processors differ less"
    assert {k: v for k, v in written.items() if k not in numbers} == {k: v for k, v in now.items() if k not in numbers}
    for group in figures.groups:
        mean, half = group.geometric_mean, group.fast["1.5"].value
        told = f"{mean.value:.3f} ({mean.low:.3f} to {mean.high:.3f}) | {half:.0%} |"
        assert f"| {group.group} | {group.problems} | {group.right} | {group.usable} | {told}" in README
    everything, ratios = figures.groups[0], [row.ratio for row in merged.rows if row.ratio is not None]
    kept = [row for row in merged.rows if row.status == "reference_kept"]
    products = [row for row in kept if row.operator_class == "matrix product"]
    told = " ".join(README.split())
    assert f"{len(merged.rows)} of the {joined.of} problems of levels 1 and 2" in told
    missing = joined.of - len(merged.rows)
    assert not missing or f"The other {missing} were not measured" in told
    assert f"Median {everything.median.value:.2f}, lowest kernel handed over {min(ratios):.2f}" in told
    assert f"highest {max(ratios):.1f} (" in told
    assert f"against fp32 eager {everything.against['eager fp32'].value:.2f}" in told
    assert f"{len(kept)} problems kept PyTorch, {len(products)} of them products" in told
    refused = [row for row in merged.rows if row.status == "unevaluable"]
    unfit = [row.name.split("_")[0] for row in refused if "does not fit" in row.reason]
    assert len(refused) - len(unfit) == 5 and "Five cannot be judged" in told
    assert unfit == ["level1/25", "level1/47"] and "(L1/47, L1/25) were told not to fit, wrongly" in told


def test_the_page_on_room_names_the_twenty_that_are_furthest_from_the_roofline():
    _, merged, _ = levels_1_2()
    page = (ROOT / "docs" / "room.md").read_text(encoding="utf-8")
    told = [line.split(" | ")[:2] for line in page.splitlines() if line.startswith("| level")]
    assert told == [[f"| {row.name.split('_')[0]}", f"{row.of_roofline:.1%}"] for row in furthest(merged.rows)]


def test_benches_that_differ_in_more_than_code_are_not_joined(tmp_path):
    results = ROOT / "docs" / "results"
    with pytest.raises(BadInput, match="differ in more than their code"):
        join([results / "kernelbench_level1_h200.json", results / "kernelbench_level2_h100.json"], tmp_path / "x", 200)
    assert not list(tmp_path.iterdir())


def test_what_the_page_says_of_convolutions_that_were_written_out_follows_from_both_benches():
    names = ("kernelbench_level2_written_out_h200", "kernelbench_level2_h200")
    files = (ROOT / "docs" / "results" / f"{name}.json" for name in names)
    before, after = (read_results(json.loads(file.read_text(encoding="utf-8")), Results).rows for file in files)
    those = {row.name for row in before}
    same = [row for row in after if row.name in those]
    told = " ".join((ROOT / "docs" / "results" / "README.md").read_text(encoding="utf-8").split())
    for title, part in (("On these 40 the geometric mean", ""), ("on their 26 convolutions it", "convolution")):
        groups = ([row for row in rows if part in row.operator_class] for rows in (before, same))
        was, now = (summarize(rows).geometric_mean.value for rows in groups)
        assert f"{title} was {was:.3f} and is {now:.3f}" in told


def test_what_the_readme_says_of_a_models_first_kernels_follows_from_the_rows():
    path = ROOT / "docs" / "results" / "model_seeds_h100.json"
    results = read_results(json.loads(path.read_text(encoding="utf-8")), SeedResults)
    told = summarize_seeds(results.rows)
    assert f"first kernels alone, {told['problems']} on an H100, {told['right']} of them right" in " ".join(
        README.split()
    )
    assert path.with_suffix(".md").read_text(encoding="utf-8") == seeds_page(results)


def runs_of_a_model(name: str) -> dict:
    return json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def test_what_the_readme_says_of_whole_runs_of_a_model_follows_from_the_rows():
    readme, data = " ".join(README.split()), runs_of_a_model("model_runs_eight_calls_h200")
    rows, told = read_results(data, ModelRunResults).rows, data["summary"]
    assert told["right"] == told["right_at_the_first_try"] == told["handed_over"] == len(rows) == 16
    filtered = next(row for row in rows if row.problem == "median_filter")
    others = geometric_mean([row.ratio or 1.0 for row in rows if row is not filtered])
    assert (
        f"handed over 16 kernels: {told['geometric_mean']:.2f} over the better of eager and `torch.compile` (geometric "
        f"mean; median {told['median']:.2f}; without a median filter of {filtered.ratio:.0f}x {others:.2f}), the "
        f"embedded expert alone {told['expert_geometric_mean']:.2f}. Seven calls in the median, "
        f"{told['median_input_tokens']:,.0f} tokens in and {told['median_output_tokens']:,.0f} out, "
        f"${told['median_dollars']:.2f} at the price of {data['priced_as']}."
    ) in readme
    assert told["median_calls"] == 7
    assert sorted(round(100 * (1 - row.gain)) for row in rows if row.gain < 1) == [2, 4]


def test_what_the_readme_says_of_earlier_runs_of_a_model_follows_from_the_rows():
    readme, sixteen = " ".join(README.split()), runs_of_a_model("model_runs_sixteen_h200")["summary"]
    assert sixteen["median_calls"] == 3
    assert (
        f"16 of three calls in the median and {sixteen['median_input_tokens']:,.0f} tokens in, "
        f"{sixteen['geometric_mean']:.2f} over PyTorch"
    ) in readme
    for name, told in (
        ("model_runs_first_call_h200", "the same 16 of one call, {:.2f}"),
        ("model_runs_more_h200", "14 whole ones, {:.2f} over PyTorch"),
        ("model_runs_h200", "eight, {:.2f}"),
    ):
        assert told.format(runs_of_a_model(name)["summary"]["geometric_mean"]) in readme


def so_far(name: str) -> SoFarResults:
    path = ROOT / "docs" / "results" / f"{name}.json"
    results = read_results(json.loads(path.read_text(encoding="utf-8")), SoFarResults)
    assert path.with_suffix(".md").read_text(encoding="utf-8") == so_far_page(results)
    return results


def test_what_the_readme_says_of_calls_follows_from_the_rows():
    courses = [row.course for row in so_far("model_runs_eight_calls_stages_h200").rows]
    most = max(course[-1].calls for course in courses)
    words = {
        0: "attempt 0, the expert's first kernel",
        1: "1 call",
        3: "3 calls",
        5: "5 calls",
        most: f"{most} calls, or the budget's end",
    }
    for calls, name in words.items():
        had = [after_calls(course, calls) for course in courses]
        mean, tokens = geometric_mean([one.best for one in had]), median(one.input_tokens for one in had)
        assert f"| {name} | {mean:.2f} | {tokens:,.0f} |" in README


def test_what_the_readme_says_of_parts_of_a_models_runs_follows_from_the_rows():
    (principles,) = [part for part in so_far("model_runs_parts_h200").parts if part.part == "principles"]
    rows = [("principles (first kernels)", len(principles.problems), principles.gain)]
    results = read_results(runs_of_a_model("model_runs_eight_calls_h200"), ModelRunResults)
    left_out = {one.part: one for one in parts_left_out(results.rows, results.rows_without)}
    for part, name in (
        ("hierarchy", "two stages: one flat loop of equal budget instead"),
        ("inter-stage-context", "summaries of earlier stages, at equal budget"),
    ):
        rows.append((name, left_out[part].pairs, left_out[part].gain))
    flat = left_out["hierarchy"]
    assert (flat.better, flat.worse) == (7, 7) and "ahead at seven problems and behind at seven" in README
    own = {worth.part: worth.gain for worth in parts_worth([row.without for row in results.rows])}
    for part, name in (
        ("analyst", "analyst: every plan but the first"),
        ("stage-two", "stage two"),
        ("contender", "the expert's attempt 0"),
        ("tuner", "the tuner"),
        ("debugger", "debugger"),
    ):
        rows.append((name, len(results.rows), own[part]))
    for name, problems, gain in rows:
        assert f"| {name} | {problems} | {gain.value:.3f} ({gain.low:.3f} to {gain.high:.3f}) |" in README, name


def test_runs_that_no_finalist_ended_are_told_as_such():
    path = ROOT / "docs" / "results" / "model_runs_stages_h200.json"
    results = read_results(json.loads(path.read_text(encoding="utf-8")), SoFarResults)
    told = summarize_so_far(results.rows)
    assert (
        f"{told['problems']} to several stages, none ended with a finalist, {told['right']} of them right"
        in " ".join(README.split())
    )
    assert path.with_suffix(".md").read_text(encoding="utf-8") == so_far_page(results)


def times_on(name: str) -> dict:
    path = ROOT / "docs" / "results" / f"{name}.json"
    return summary_of_times(read_results(json.loads(path.read_text(encoding="utf-8")), TimesResults))


def test_what_the_readme_says_of_seconds_follows_from_the_rows():
    told = times_on("times_h100")
    cold, warm, whole = (told[name] for name in ("cold", "warm", "whole"))
    assert f"{whole['problems']} of KernelBench's problems" in README
    assert f"{cold['median']:.0f} s from a\ncold start to the first verdict, {warm['median']:.1f} s" in README
    assert f"{whole['median']:.0f} s for a whole run ({whole['worst']:.0f} s at most" in README
    told = times_on("times_h200")
    cold, warm, whole = (told[name] for name in ("cold", "warm", "whole"))
    assert (
        f"{whole['problems']} problems, it was {cold['median']:.0f} s, {warm['median']:.1f} s and "
        f"{whole['median']:.0f} s ({whole['worst']:.0f} s at most)"
    ) in README


def test_what_the_readme_says_of_whole_networks_follows_from_the_rows():
    path = ROOT / "docs" / "results" / "full_size_level3_h100.json"
    results = read_results(json.loads(path.read_text(encoding="utf-8")), FullSizeResults)
    told = summary_of_full_size(results)
    assert path.with_suffix(".md").read_text(encoding="utf-8") == full_size_page(results)
    readme, mean, kept = " ".join(README.split()), told["geometric_mean"], told["geometric_mean_pytorch_kept"]
    assert (
        f"for {len(results.rows)} of level 3's {results.asked}, on four H100 in eight minutes: {told['timed']} are "
        f"right at full shape and timed, {mean:.2f} ({kept:.2f} where PyTorch is kept for a slower kernel)"
    ) in readme


def test_what_the_readme_says_of_whole_runs_of_level_3_follows_from_the_rows():
    readme, results = " ".join(README.split()), bench_of("kernelbench_level3_h200")
    rows, told = results.rows, summarize(results.rows)
    handed = [row for row in rows if row.status == "faster"]
    kept = [row for row in rows if row.status == "reference_kept"]
    assert (len(rows), results.problems, len(handed), len(kept)) == (40, 50, 22, 8)
    assert "40 of the 50" in readme and f"{len(handed) + len(kept)} right at full shape, 22 handed over" in readme
    assert (
        f"{told.geometric_mean.value:.2f} over the better of eager and `torch.compile` (geometric mean, kept" in readme
    )
    assert f"median {told.median.value:.2f}), LSTMs" in readme
    recurrent = [row.ratio for row in handed if "LSTM" in row.name or "GRU" in row.name]
    assert f"LSTMs and GRUs {min(recurrent):.1f} to {max(recurrent):.1f}" in readme


def test_the_figures_of_the_page_on_trust_are_those_that_were_written():
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    told = page.split("<!-- figures -->")[1].split("<!-- /figures -->")[0]
    assert told.strip() == read_figures(ROOT / "docs" / "results").strip()
    assert "trust_corpus" in told


def test_the_page_of_the_survey_holds_it_against_the_present_rules():
    path = ROOT / "docs" / "results" / "convolution_survey_h200"
    results = read_survey(path)
    written = path.with_suffix(".md").read_text(encoding="utf-8")
    assert written == survey_page(results), f"write it anew: python -m tests.lab survey --out {path}"
    told = summary(results)
    assert told["convolutions"] >= 90
    assert told["begun"] < told["now"] < told["best"] < 1.1 * told["now"], "the first choices are near the best"


def test_knobs_are_turned_from_the_best_so_far():
    config = {"BLOCK": 128, "num_warps": 4, "num_stages": 3}
    space = {"parallel_mapping": {"num_warps": (8, 4)}, "tensor_tiling": {"BLOCK": (128, 256, 512)}}

    def time():
        if config["BLOCK"] == 512:
            raise RuntimeError("out of shared memory")
        return (1.0 if config["BLOCK"] == 256 else 2.0) * (0.5 if config["num_warps"] == 8 else 1.0)

    times = turned(config, space, time)
    assert [(t["BLOCK"], t["num_warps"], ms) for t, ms in times] == [(128, 4, 2.0), (256, 4, 1.0), (256, 8, 0.5)]
    assert config == {"BLOCK": 256, "num_warps": 8, "num_stages": 3}


def test_pytorchs_switches_are_turned_for_convolutions_alone():
    images = torch.randn(2, 3, 8, 8)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU())
    turned_on = {}
    for label, call in switched(model, [images]):
        laid = call().is_contiguous(memory_format=torch.channels_last)
        turned_on[label] = (in_a_thread(lambda: float(torch.backends.cudnn.benchmark)), laid)
    assert turned_on == {
        "channels_last": (0.0, True),
        "cudnn.benchmark": (1.0, False),
        "cudnn.benchmark channels_last": (1.0, True),
    }
    assert not torch.backends.cudnn.benchmark
    assert [label for label, _ in switched(torch.nn.Conv1d(3, 8, 3), [images[0]])] == ["cudnn.benchmark"]
    assert not list(switched(torch.nn.Linear(8, 8), [images]))
