"""Which problems a bench has, and the class of each."""

import pytest

from egg_graph.bench import find_problems, find_references
from egg_graph.bench.classes import CLASSES, ELEMENTWISE, operator_class
from egg_graph.schema import BadInput
from tests.graph.scripted import REFERENCE


@pytest.fixture
def suite(tmp_path):
    folder = tmp_path / "suite"
    folder.mkdir()
    for name in ("b_relu", "a_relu"):
        (folder / f"{name}.py").write_text(REFERENCE)
    (folder / "helper.py").write_text("x = 1\n")
    (folder / "broken.py").write_text("def (\n")
    return folder


@pytest.fixture
def kernelbench(tmp_path):
    """A checkout with two levels, three problems each."""
    for level in (1, 2):
        folder = tmp_path / "checkout" / "KernelBench" / f"level{level}"
        folder.mkdir(parents=True)
        for name in ("10_Ten", "2_Two", "1_One"):
            (folder / f"{name}.py").write_text(REFERENCE)
    return tmp_path / "checkout"


def test_a_folder_holds_its_references_alone(suite, tmp_path):
    assert [path.stem for path in find_references(suite)] == ["a_relu", "b_relu"]
    assert [problem.name for problem in find_problems(str(suite), only="b_*")] == ["b_relu"]
    listed = tmp_path / "list.txt"
    listed.write_text("# mine\nsuite/b_relu.py  # first\n\nsuite/a_relu.py\n")
    assert [problem.name for problem in find_problems(str(listed))] == ["b_relu", "a_relu"]


def test_kernelbench_is_chosen_by_level_and_number(kernelbench):
    def names(**options):
        return [problem.name for problem in find_problems("kernelbench", path=kernelbench, **options)]

    assert names() == [f"level{level}/{name}" for level in (1, 2) for name in ("1_One", "2_Two", "10_Ten")]
    assert names(levels="2", problems="2-10") == ["level2/2_Two", "level2/10_Ten"]
    assert names(problems="1/10,2/1") == ["level1/10_Ten", "level2/1_One"]
    assert names(levels="1", only="*Two") == ["level1/2_Two"]
    (inner,) = find_problems("kernelbench", path=kernelbench / "KernelBench", problems="2/1")
    assert inner.section == "level2"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "give --path"),
        ({"path": "nowhere"}, "nowhere: no folder level1"),
        ({"levels": "1,7"}, "no level '7'; there are 1, 2"),
        ({"problems": "1-x"}, "'1-x' is no number"),
        ({"problems": "1-2,77"}, "problems: no 77 in level 1, 2"),
        ({"levels": "2", "problems": "1/1"}, "problems: no 1/1 in level 2"),
        ({"problems": "2/1,10"}, "10 stands behind 2/1 and names no level: write it with one, as in 2/10"),
        ({"only": "zzz"}, "no problem named 'zzz' in level 1, 2"),
    ],
)
def test_a_wrong_choice_of_kernelbench_is_one_clear_line(kernelbench, options, says):
    path = {} if not options else {"path": kernelbench}
    with pytest.raises(BadInput, match=says):
        find_problems("kernelbench", **{**path, **options})


def test_a_wrong_choice_of_a_folder_is_one_clear_line(suite, tmp_path):
    with pytest.raises(BadInput, match="no reference named"):
        find_problems(str(suite), only="zzz")
    with pytest.raises(BadInput, match="no suite; name kernelbench, workloads, a folder"):
        find_problems("kernelbank")
    with pytest.raises(BadInput, match="belong to the suite kernelbench"):
        find_problems(str(suite), levels="1")
    listed = tmp_path / "twice.txt"
    listed.write_text("suite/a_relu.py\nsuite/a_relu.py\n")
    with pytest.raises(BadInput, match="two references are named 'suite/a_relu'"):
        find_problems(str(listed))


def model(forward, init="pass"):
    return (
        f"class Model(nn.Module):\n  def __init__(self):\n    {init}\n  def forward(self, x):\n    return {forward}\n"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (model("self.c(x)", "self.c = nn.ConvTranspose3d(3, 4, 5)"), "transposed convolution 3D"),
        (model("F.conv2d(x, self.w).softmax(1)"), "convolution 2D"),
        (model("torch.softmax(x @ x, -1)"), "matrix product"),
        (model("F.scaled_dot_product_attention(self.q(x))", "self.q = nn.Linear(3, 4)"), "attention"),
        (model("self.r(x)", "self.r = nn.LSTM(3, 4)"), "recurrent"),
        (model("x.cumsum(1)"), "scan"),
        (model("self.p(x)", "self.p = nn.MaxPool2d(2)"), "pooling"),
        (model("x * torch.rsqrt(x.pow(2).mean(-1))"), "normalization"),
        (model("torch.logsumexp(x, 1)"), "softmax"),
        (model("F.cross_entropy(x, x)"), "loss"),
        (model("torch.argmax(x, 1)"), "reduction"),
        (model("x.index_copy(1, x, x)"), "gather and scatter"),
        (model("torch.relu(x)") + "def get_inputs():\n  return [torch.sum(torch.ones(2))]\n", ELEMENTWISE),
        ("def (", ELEMENTWISE),
    ],
)
def test_a_problem_has_the_class_of_its_heaviest_operator(source, expected):
    assert operator_class(source) == expected
    assert expected in {ELEMENTWISE, *(name for name, _ in CLASSES)}
