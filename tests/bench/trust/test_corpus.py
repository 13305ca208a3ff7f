"""The corpus runner: headers are read or refused in one line; verdicts are held against what they expect."""

import json

import pytest

from egg_graph.bench.trust.corpus import run_corpus
from egg_graph.bench.trust.headers import read_entries
from egg_graph.bench.trust.rows import rates
from egg_graph.schema import BadInput, InfrastructureError
from tests.bench.trust.files import ScriptedEvaluator, header, make_corpus


class TestHeaders:
    def test_a_header_is_read_with_its_problem(self, tmp_path):
        extras = {"precision": '"bf16"', "terms": "{triton_only = true}", "where": '["gpu"]'}
        corpus = make_corpus(tmp_path, memo=header("B6", '["invalid"]', finding='["replayed_output"]', **extras))
        (entry,) = read_entries([corpus])
        assert entry.header.id == "B6"
        assert entry.header.precision == "bf16"
        assert entry.header.terms.triton_only
        assert entry.header.where == ("gpu",)
        assert "class Model" in entry.reference

    @pytest.mark.parametrize(
        ("toml", "complaint"),
        [
            (header("x", '["caught"]'), "expect"),
            (header("x", "[]"), "expect"),
            (header("x", '["right"]', colour='"red"'), "colour"),
            (header("x", '["incorrect"]', finding='["bad luck"]'), "finding"),
            (header("x", '["right"').replace('"]', '"'), "not TOML"),
            (header("x", '["right"]').replace("double", "triple"), "triple.py"),
            ('id = "x"', "name"),
        ],
    )
    def test_a_bad_header_is_refused_in_one_line_that_names_the_file(self, tmp_path, toml, complaint):
        corpus = make_corpus(tmp_path, odd=toml)
        with pytest.raises(BadInput) as refusal:
            read_entries([corpus])
        assert "odd.py" in str(refusal.value)
        assert complaint in str(refusal.value)
        assert "\n" not in str(refusal.value)

    def test_a_file_without_header_is_refused(self, tmp_path):
        corpus = make_corpus(tmp_path)
        (corpus / "bare.py").write_text("import torch\n")
        with pytest.raises(BadInput, match=r"bare\.py: no header"):
            read_entries([corpus])

    def test_a_header_that_is_never_closed_is_refused(self, tmp_path):
        corpus = make_corpus(tmp_path)
        (corpus / "open.py").write_text('# /// trick\n# id = "x"\nimport torch\n')
        with pytest.raises(BadInput, match="not closed"):
            read_entries([corpus])

    def test_an_id_used_twice_is_refused(self, tmp_path):
        corpus = make_corpus(tmp_path, one=header("x", '["right"]'), two=header("x", '["right"]'))
        with pytest.raises(BadInput, match=r"two\.py: id 'x'"):
            read_entries([corpus])


class TestOutcomes:
    @pytest.mark.parametrize(
        ("expect", "verdict", "outcome"),
        [
            ('["incorrect"]', "incorrect wrong_values", "caught"),
            ('["incorrect"]', "correct", "missed"),
            ('["incorrect"]', "faster", "missed"),
            ('["incorrect"]', "timeout timeout", "misnamed"),
            ('["invalid", "right"]', "slower", "harmless"),
            ('["right"]', "slower", "right"),
            ('["right"]', "incorrect wrong_values", "false_reject"),
            ('["right"]', "unevaluable degenerate_problem", "not_judged"),
            ('["unevaluable"]', "unevaluable degenerate_problem", "caught"),
            ('["incorrect"]', "infra_error infrastructure", "not_judged"),
        ],
    )
    def test_one_verdict(self, tmp_path, expect, verdict, outcome):
        corpus = make_corpus(tmp_path, file=header("x", expect))
        results = run_corpus([corpus], evaluator=ScriptedEvaluator(file=verdict))
        assert results.rows[0].outcome == outcome

    def test_a_finding_that_is_asked_for_must_be_there(self, tmp_path):
        corpus = make_corpus(tmp_path, file=header("x", '["invalid"]', finding='["replayed_output"]'))
        seen = [
            run_corpus([corpus], evaluator=ScriptedEvaluator(file=verdict)).rows[0].outcome
            for verdict in ("invalid replayed_output", "invalid forbidden_import")
        ]
        assert seen == ["caught", "misnamed"]

    def test_the_worst_of_several_runs_counts(self, tmp_path):
        corpus = make_corpus(tmp_path, file=header("x", '["right"]'))
        scripted = ScriptedEvaluator(file=["correct", "incorrect wrong_values", "correct"])
        (row,) = run_corpus([corpus], repeat=3, evaluator=scripted).rows
        assert row.outcome == "false_reject"
        assert row.worst.reason == "incorrect wrong_values"

    def test_rates_leave_out_what_was_not_judged(self, tmp_path):
        trick, honest = '["incorrect"]', '["right"]'
        headers = {"a": trick, "b": trick, "c": trick, "d": honest, "e": honest}
        corpus = make_corpus(tmp_path, **{name: header(name, expect) for name, expect in headers.items()})
        broken = InfrastructureError("the judge process was lost")
        scripted = ScriptedEvaluator(a="incorrect wrong_values", b="correct", c=broken, d="correct", e="invalid")
        found = rates(run_corpus([corpus], evaluator=scripted).rows)
        assert (found.tricks, found.caught, found.missed, found.not_judged) == (2, 1, 1, 1)
        assert (found.catch_rate, found.false_reject_rate) == (0.5, 0.5)

    def test_files_of_the_other_ladder_are_told_and_not_judged(self, tmp_path):
        corpus = make_corpus(tmp_path, file=header("x", '["incorrect"]', where='["gpu"]'))
        scripted = ScriptedEvaluator()
        results = run_corpus([corpus], evaluator=scripted)
        assert results.elsewhere == ("x",)
        assert scripted.calls == 0


class TestFiles:
    def test_rows_are_written_as_they_come_and_kept_when_asked(self, tmp_path):
        corpus = make_corpus(tmp_path, a=header("a", '["right"]'), b=header("b", '["incorrect"]'))
        out = tmp_path / "results" / "trust.json"
        with pytest.raises(RuntimeError):  # a defect of ours in the middle of the row
            run_corpus([corpus], out, evaluator=ScriptedEvaluator(a="correct", b=RuntimeError("a defect")))
        assert [row["file"] for row in json.loads(out.read_text())["rows"]] == ["corpus/a.py"]
        scripted = ScriptedEvaluator(b="incorrect wrong_values")
        results = run_corpus([corpus], out, keep=True, evaluator=scripted)
        assert scripted.calls == 1
        assert [row.outcome for row in results.rows] == ["right", "caught"]
        written = json.loads(out.read_text())
        assert written["summary"]["catch_rate"] == 1.0
        assert "| b | b by name | incorrect | incorrect | wrong_values | caught |" in out.with_suffix(".md").read_text()

    def test_a_changed_file_is_judged_again(self, tmp_path):
        corpus = make_corpus(tmp_path, a=header("a", '["right"]'))
        out = tmp_path / "trust.json"
        run_corpus([corpus], out, evaluator=ScriptedEvaluator(a="correct"))
        (corpus / "a.py").write_text((corpus / "a.py").read_text() + "# changed\n")
        scripted = ScriptedEvaluator(a="slower")
        assert run_corpus([corpus], out, keep=True, evaluator=scripted).rows[0].worst.status == "slower"

    def test_rows_made_on_other_terms_are_not_kept(self, tmp_path):
        corpus = make_corpus(tmp_path, a=header("a", '["right"]'))
        out = tmp_path / "trust.json"
        run_corpus([corpus], out, evaluator=ScriptedEvaluator(a="correct"))
        with pytest.raises(BadInput, match="other terms"):
            run_corpus([corpus], out, keep=True, repeat=3, evaluator=ScriptedEvaluator(a=["correct"] * 3))

    def test_the_candidate_never_sees_its_header(self, tmp_path):
        corpus = make_corpus(tmp_path, a=header("a", '["right"]'))

        class Reader(ScriptedEvaluator):
            def evaluate(self, task, candidate, **options):
                assert "expect" not in candidate.source
                return super().evaluate(task, candidate, **options)

        assert run_corpus([corpus], evaluator=Reader(a="correct")).rows[0].outcome == "right"

    def test_an_unknown_id_is_refused(self, tmp_path):
        corpus = make_corpus(tmp_path, a=header("a", '["right"]'))
        with pytest.raises(BadInput, match="--only z"):
            run_corpus([corpus], only=["z"], evaluator=ScriptedEvaluator())
