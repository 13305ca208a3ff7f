"""The class of a problem, by one rule: the first row of `CLASSES` of which its reference's source uses a name.

The rule reads the source, so that a problem has its class before anything ran, and also where nothing could run. It
looks at names of attributes and called functions in all classes and functions but `get_inputs` and `get_init_inputs`;
`@` between values counts as `matmul`. A chain of operators has the class of its heaviest one: the order of the rows.
"""

import ast
import re

from egg_graph.schema.syntax import syntax_tree

CLASSES: tuple[tuple[str, str], ...] = (
    ("transposed convolution 3D", r"conv_?transpose_?3d"),
    ("transposed convolution 2D", r"conv_?transpose_?2d"),
    ("transposed convolution 1D", r"conv_?transpose_?1d"),
    ("convolution 3D", r"conv3d"),
    ("convolution 2D", r"conv2d"),
    ("convolution 1D", r"conv1d"),
    ("recurrent", r"lstm|gru|rnn|(lstm|gru|rnn)cell"),
    ("attention", r"scaled_dot_product_attention|multiheadattention"),
    ("matrix product", r"linear|matmul|b?mm|addmm|baddbmm|einsum|bilinear|tensordot"),
    ("scan", r"cumsum|cumprod|cummax|cummin|logcumsumexp"),
    ("pooling", r"(adaptive_?)?(max|avg|lp)_?pool_?[123]d"),
    ("normalization", r"(batch|layer|group|instance|rms|local_response)_?norm([123]d)?|normalize|norm|rsqrt"),
    ("loss", r"\w*loss|cross_entropy|kl_div|nll_loss|cosine_similarity"),
    ("softmax", r"(log_?)?soft(max|min)(2d)?|logsumexp"),
    ("gather and scatter", r"index_(copy|put|add|select)_?|scatter(_add|_reduce)?_?|gather|embedding|topk"),
    ("reduction", r"sum|mean|prod|[ai]?max|[ai]?min|amax|amin|argmax|argmin|var|std|all|any|median"),
)
"""Name of the class, and a pattern for the whole name in lower case."""
ELEMENTWISE = "elementwise and other"
"""The class of every other problem."""
CONVOLUTIONS = tuple(name for name, _ in CLASSES if "convolution" in name)
"""The classes with a convolution of any kind."""
_INPUTS = ("get_inputs", "get_init_inputs")


def operator_class(source: str) -> str:
    """The class of a reference; `ELEMENTWISE` also for what is no Python.

    Args:
        source: the reference's text.
    """
    try:
        tree = syntax_tree(source)
    except (SyntaxError, ValueError):
        return ELEMENTWISE
    names = _names(tree)
    for name, pattern in CLASSES:
        if any(re.fullmatch(pattern, each) for each in names):
            return name
    return ELEMENTWISE


def _names(tree: ast.Module) -> set[str]:
    """What the classes and functions of a module call or look up, in lower case."""
    bodies = [n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name not in _INPUTS]
    found = set()
    for node in (each for body in bodies for each in ast.walk(body)):
        match node:
            case ast.Attribute():
                found.add(node.attr.lower())
            case ast.Call(func=ast.Name(id=name)):
                found.add(name.lower())
            case ast.BinOp(op=ast.MatMult()):
                found.add("matmul")
    return found
