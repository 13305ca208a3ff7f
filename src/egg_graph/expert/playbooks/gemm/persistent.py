"""The fast structure on Hopper: one program per multiprocessor walks over the tiles, operands come by TMA.

Tensor cores take fp32 operands from shared memory only with K contiguous, and truncate them. So TMA rounds an operand
as it loads it (Triton 3.7 and later), or a pass of its own packs it (rounded, K contiguous, rows on 16 bytes), or the
operand goes through registers and is rounded there.
"""

from dataclasses import dataclass
from typing import Literal

from egg_graph.expert.playbooks.gemm.spec import GemmSpec, assemble

Way = Literal["direct", "rounded", "registers"]
"""`direct`: as it is. `rounded`: on its way into shared memory or by a pass of its own. `registers`: rounded there."""

STORE = '''@triton.jit
def {name}_store(
    acc, out,{matrix} row, col, M, N,{parameters}
    TMA_STORE: tl.constexpr, SPLIT: tl.constexpr,
):
    """Epilogue and store of a tile, in SPLIT column chunks: a whole tile staged for the store would not fit beside the
    operands in shared memory."""
    if SPLIT > 1:
        HALF: tl.constexpr = acc.shape[1] // 2
        left, right = column_halves(acc)
        {name}_store(left, out,{matrix} row, col, M, N,{parameters} TMA_STORE, SPLIT // 2)
        {name}_store(right, out,{matrix} row, col + HALF, M, N,{parameters} TMA_STORE, SPLIT // 2)
    else:
        rows = row + tl.arange(0, acc.shape[0])
        cols = col + tl.arange(0, acc.shape[1])
        y = {epilogue}
        if TMA_STORE:
            out.store([{at}row, col], {stored}.to(out.dtype))
        else:
            y_ptrs = out +{out_matrix} rows.to(tl.int64)[:, None] * N + cols[None, :]
            tl.store(y_ptrs, y.to(out.dtype.element_ty), mask=(rows < M)[:, None] & (cols < N)[None, :])
'''

KERNEL = '''@triton.jit
def {name}_kernel(
    a_desc, b_desc, out, {matrices}M, N, K,{parameters}
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    PROGRAMS: tl.constexpr, SPLIT: tl.constexpr, TMA_STORE: tl.constexpr,
):
    """out[m, n] = epilogue(sum over k of a[m, k] * b[{b_index}]), PROGRAMS programs, each with every PROGRAMS-th tile.

    The loop over tiles is flattened into the loop over k, so that loads of the next tile overlap this one's epilogue.
    Tiles that reach past the edge are filled with zeros by the accelerator and cut off at the store.{swap_words}
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    done = tl.program_id(0) - PROGRAMS  # a count of its own for the epilogue shortens the life of the tile's position
    for tile in tl.range(tl.program_id(0), {tiles}tiles_m * tiles_n, PROGRAMS, flatten=True):
{place}        acc = tl.zeros(({acc_shape}), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            a = a_desc.load([{at}tile_m * BLOCK_M, k]){a_shape}
            b = b_desc.load([{b_at}]){b_shape}
            acc = tl.dot({dot}, acc{precision})
        done += PROGRAMS
{place_done}{swap_back}        {name}_store(
            acc, out,{matrix} tile_m * BLOCK_M, tile_n * BLOCK_N, M, N,{parameters}
            TMA_STORE, SPLIT,
        )
'''

PLACE = "        tile_m, tile_n = grouped_tile({tile}, tiles_m, tiles_n, GROUP_M)\n"
BATCHED_PLACE = """        matrix = {tile} // (tiles_m * tiles_n)
        tile_m, tile_n = grouped_tile({tile} % (tiles_m * tiles_n), tiles_m, tiles_n, GROUP_M)
"""

LAUNCH = """{operands}    block_m, block_n, block_k = {block_m}, {block_n}, {block_k}
    chunk = block_n // {split}
    a_desc = {a_descriptor}(a, [{one}block_m, block_k])
    b_desc = {b_descriptor}(b, [{one}{b_block}])
    tma_store = N * out.element_size() % 16 == 0
    target = TensorDescriptor.from_tensor(out.view({view}), [{one}block_m, chunk]) if tma_store else out
    tiles = {matrices}triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
    {name}_kernel[(min(tiles, {programs}),)](
        a_desc, b_desc, target, {pass_matrices}M, N, K,{arguments}
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
{options}
        SPLIT={split},
        TMA_STORE=tma_store,
    )
    return out
"""


@dataclass(frozen=True)
class Ways:
    """How each operand reaches the tensor cores."""

    a: Way
    b: Way
    b_is_nk: bool = True
    """Whether b is read as [N, K] with K contiguous, or as [K, N], which tensor cores take at 16 bits only."""

    @property
    def swapped(self) -> bool:
        """Whether the transposed tile is computed: only the left operand of a product may come from registers."""
        return self.b == "registers"


def write_persistent(spec: GemmSpec, ways: Ways) -> str:
    """Write kernel, store and wrapper."""
    batched = spec.batched
    fields = {
        "name": spec.name,
        "parameters": spec.epilogue_parameters,
        "matrix": " matrix," if batched else "",
        "at": "matrix, " if batched else "",
    }
    store = STORE.format(
        **fields,
        epilogue=spec.epilogue.call("acc", "rows", "cols", "matrix" if batched else ""),
        stored="y.reshape(1, acc.shape[0], acc.shape[1])" if batched else "y",
        out_matrix=" matrix.to(tl.int64) * M * N +" if batched else "",
    )
    kernel = KERNEL.format(
        **fields,
        matrices="matrices, " if batched else "",
        tiles="matrices * " if batched else "",
        b_index="n, k" if ways.b_is_nk else "k, n",
        swap_words="\n    Computed as its transpose: only a left operand can pass through registers."
        if ways.swapped
        else "",
        place=(BATCHED_PLACE if batched else PLACE).format(tile="tile"),
        place_done=(BATCHED_PLACE if batched else PLACE).format(tile="done"),
        acc_shape="BLOCK_N, BLOCK_M" if ways.swapped else "BLOCK_M, BLOCK_N",
        a_shape=".reshape(BLOCK_M, BLOCK_K)" if batched else "",
        b_at=("matrix, " if batched else "") + ("tile_n * BLOCK_N, k" if ways.b_is_nk else "k, tile_n * BLOCK_N"),
        b_shape=(".reshape(BLOCK_N, BLOCK_K)" if ways.b_is_nk else ".reshape(BLOCK_K, BLOCK_N)") if batched else "",
        dot=_dot(spec, ways),
        precision=spec.precision,
        swap_back="        acc = acc.T\n" if ways.swapped else "",
    )
    return assemble(spec.epilogue.source, store, kernel, spec.wrapper_head() + _launch(spec, ways))


def _dot(spec: GemmSpec, ways: Ways) -> str:
    a = spec.rounded("a") if ways.a == "registers" else "a"
    b = spec.rounded("b") if ways.b == "registers" else "b"
    if ways.swapped:
        return f"{b}, {a}.T"
    return f"{a}, {b}.T" if ways.b_is_nk else f"{a}, {b}"


def _launch(spec: GemmSpec, ways: Ways) -> str:
    batched = spec.batched
    return LAUNCH.format(
        name=spec.name,
        operands=_operands(spec, ways),
        block_m=spec.knob("BLOCK_M"),
        block_n=spec.knob("BLOCK_N"),
        block_k=spec.knob("BLOCK_K"),
        split=spec.knob("EPILOGUE_SPLIT"),
        programs=spec.knob("PROGRAMS"),
        a_descriptor=_descriptor(spec, ways.a),
        b_descriptor=_descriptor(spec, ways.b),
        one="1, " if batched else "",
        b_block="block_n, block_k" if ways.b_is_nk else "block_k, block_n",
        view="-1, M, N" if batched else "M, N",
        matrices="matrices * " if batched else "",
        pass_matrices="matrices, " if batched else "",
        arguments=spec.epilogue_arguments,
        options=spec.launch_options("GROUP_M", "PROGRAMS", "num_warps", "num_stages"),
    )


def _descriptor(spec: GemmSpec, way: Way) -> str:
    return "tf32_descriptor" if way == "rounded" and spec.round_tf32 else "TensorDescriptor.from_tensor"


def _operands(spec: GemmSpec, ways: Ways) -> str:
    """Write the lines that make a and b readable by TMA, b as [N, K] where it is read so."""
    lines = ["b = b.transpose(-2, -1)"] if ways.b_is_nk else []
    rows = {"a": "M", "b": "N" if ways.b_is_nk else "K"}
    for operand, way in (("a", ways.a), ("b", ways.b)):
        if spec.batched:
            packed = f"pack_rows({operand}.unsqueeze(1), {spec.round_tf32}).squeeze(1)"
        else:
            head = "kept_copy(kept, layer, " if spec.keeps and operand == "b" else "pack_rows("
            pack = "pack_rows, " if spec.keeps and operand == "b" else ""
            packed = f"{head}{operand}.unsqueeze(0).unsqueeze(0), {pack}{spec.round_tf32}).view({rows[operand]}, -1)"
        ready = f"TMA_ROUNDS and tma_ready({operand})" if way == "rounded" else f"tma_ready({operand})"
        lines.append(f"{operand} = {operand} if {ready} else {packed}")
    return "".join(f"    {line}\n" for line in lines)
