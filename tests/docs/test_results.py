"""Numbers in the README are those of the results files that a command wrote."""

import json
from collections.abc import Iterator
from statistics import geometric_mean

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
from tests.lab.model_runs_parts import parts_worth
from tests.lab.model_runs_so_far import SoFarResults, so_far_page, summarize_so_far
from tests.lab.model_runs_table import ModelRunResults
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
    readme, data = " ".join(README.split()), runs_of_a_model("model_runs_sixteen_h200")
    rows, told = read_results(data, ModelRunResults).rows, data["summary"]
    assert all(row.right for row in rows) and f"A model in the roles: {len(rows)} whole runs" in readme
    assert f"right at all {len(rows)}, at {told['right_at_the_first_try']} of them at the first try" in readme
    assert f"and handed over {told['handed_over']} kernels: {told['geometric_mean']:.2f} over" in readme
    assert (
        f"median {told['median']:.2f}), the embedded expert alone {told['expert_geometric_mean']:.2f}. Three" in readme
    )
    tokens = f"{told['median_input_tokens']:,.0f} tokens in and {told['median_output_tokens']:,.0f} out"
    assert f"Three calls in the median, {tokens}" in readme and told["median_calls"] == 3
    behind = [row.gain for row in rows if row.gain < 1]
    assert len(behind) == 3 and min(behind) > 0.95 and max(behind) < 0.99
    assert (
        told["after"]["memory_optimization"]
        == told["after"]["parallel_mapping"]
        > told["after"]["algorithmic_structure"]
    )
    for name, ratio in (("model_runs_more_h200", "2.67 over PyTorch"), ("model_runs_h200", "eight, 3.82")):
        mean = f"{runs_of_a_model(name)['summary']['geometric_mean']:.2f}"
        assert mean in ratio and ratio in readme


def test_what_the_readme_says_of_runs_of_one_call_follows_from_the_rows():
    readme, data = " ".join(README.split()), runs_of_a_model("model_runs_first_call_h200")
    rows, told = read_results(data, ModelRunResults).rows, data["summary"]
    filtered = next(row for row in rows if row.problem == "median_filter")
    others = geometric_mean([row.ratio or 1.0 for row in rows if row is not filtered])
    assert told["right"] == told["right_at_the_first_try"] == len(rows) == 16 and told["median_calls"] == 1
    unbeaten = [row for row in rows if row.ratio and row.contender == row.after["memory_optimization"]]
    assert len(unbeaten) == 3
    assert (
        f"right at all 16 at the first try, {told['handed_over']} kernels handed over (three are "
        f"attempt 0), {told['geometric_mean']:.2f} over the better of eager and `torch.compile`, the embedded expert "
        f"alone {told['expert_geometric_mean']:.2f}; {told['median_input_tokens']:,.0f} tokens in (median). "
        f"The median filter counts here ({filtered.ratio:.0f}x); without it the mean would be {others:.2f}."
    ) in readme


def so_far(name: str) -> SoFarResults:
    path = ROOT / "docs" / "results" / f"{name}.json"
    results = read_results(json.loads(path.read_text(encoding="utf-8")), SoFarResults)
    assert path.with_suffix(".md").read_text(encoding="utf-8") == so_far_page(results)
    return results


def test_what_the_readme_says_of_parts_of_a_models_runs_follows_from_the_rows():
    first, third = so_far("model_runs_parts_h200"), so_far("model_runs_three_kernels_h200")
    worth = {part.part: part for part in (*first.parts, *third.parts)}
    words = {
        "principles": "principles (first kernels)",
        "inter-stage-context": "summaries of earlier stages (three or four kernels)",
        "hierarchy": "two stages: one flat loop instead (three or four kernels)",
    }
    rows = [(word, len(worth[part].problems), worth[part].gain) for part, word in words.items()]
    assert set(worth["hierarchy"].kernels) == {3, 4} == set(worth["inter-stage-context"].kernels)
    (few,) = [part for part in first.parts if part.part == "hierarchy"]
    assert len(few.problems) == 3 and f"three problems gave the flat loop\n{1 / few.gain.value:.2f}" in README
    assert (worth["hierarchy"].worse, worth["hierarchy"].better) == (8, 3)
    reached = [summarize_so_far(third.rows)["reached"][stage] for stage in ("tensor_tiling", "memory_optimization")]
    assert reached == [7, 0] and "seven runs came to tiling, none to memory" in " ".join(README.split())
    whole = read_results(runs_of_a_model("model_runs_sixteen_h200"), ModelRunResults)
    mine = {worth.part: worth for worth in parts_worth([row.without for row in whole.rows])}
    named = {"debugger": "repairs", "contender": "the expert's attempt 0", "tuner": "the tuner"}
    rows += [(named[part], len(whole.rows), mine[part].gain) for part in named]
    for name, problems, gain in rows:
        assert f"| {name} | {problems} | {gain.value:.3f} ({gain.low:.3f} to {gain.high:.3f}) |" in README, name


def test_runs_that_no_finalist_ended_are_told_as_such():
    path = ROOT / "docs" / "results" / "model_runs_stages_h200.json"
    results = read_results(json.loads(path.read_text(encoding="utf-8")), SoFarResults)
    told = summarize_so_far(results.rows)
    assert f"{told['problems']} to several stages, none ended with a finalist, {told['right']} of them right" in README
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
    assert (
        f"Of the {len(results.rows)} of {results.asked} that had been judged by then {told['timed']} are right"
        in README
    )
    mean, kept = told["geometric_mean"], told["geometric_mean_pytorch_kept"]
    assert f"{mean:.2f} over\nthe better of" in README and f"{kept:.2f} where PyTorch is kept" in README
    ratios = {row.problem: call.ratio for row in results.rows for call in row.calls if call.ratio}
    recurrences = sorted(ratio for problem, ratio in ratios.items() if "LSTM" in problem or "GRU" in problem)
    assert len(recurrences) == 7, "all that can be judged"
    assert f"gain most, {recurrences[0]:.1f} to {recurrences[-1]:.1f}:" in README


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
