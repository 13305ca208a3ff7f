"""Kernel and wrapper templates of a recurrence."""

PROJECT = '''@triton.jit
def {name}_project_kernel(
    x_ptr, weight_ptr, gates_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """gates[m, n] = sum over k of x[m, k] * weight[n, k]: what all steps take from their input."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    m = (tl.program_id(0) // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = (tl.program_id(0) % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_row = x_ptr + m.to(tl.int64)[:, None] * K
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        inside = start + k < K
        x = tl.load(x_row + (start + k)[None, :], mask=(m < M)[:, None] & inside[None, :], other=0.0)
        place = n[None, :] * K + (start + k)[:, None]
        weight = tl.load(weight_ptr + place, mask=(n < N)[None, :] & inside[:, None], other=0.0)
        acc = tl.dot(x, weight, acc{options})
    tl.store(gates_ptr + m.to(tl.int64)[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


def {name}_project(x, weight):
    """x [*, *, K] times weight [N, K] transposed, in fp32."""
    x, weight = x.contiguous(), weight.contiguous()
    M, N, K = x.shape[0] * x.shape[1], *weight.shape
    gates = torch.empty((*x.shape[:2], N), device=x.device, dtype=torch.float32)
    {name}_project_kernel[(triton.cdiv(M, 64) * triton.cdiv(N, 64),)](
        x, weight, gates, M, N, K, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=2
    )
    return gates
'''

KERNEL = '''@triton.jit
def {name}_kernel(
    gates_ptr, input_weight_ptr, state_weight_ptr, {bias_pointers}{first_pointers}, out_ptr, {last_pointers},
    arrived_ptr, T, B, first_b, H, slices, gates_t, gates_b, out_c, out_t, out_b,
    STACKED: tl.constexpr, UNITS: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """All steps of one slice of UNITS numbers of the state, in one chain: a layer if STACKED, else a direction. Its
    rows of the weights stay in registers. A step ends when all slices of the chain have stored their part of the state
    and counted themselves; a layer's input is the state of the layer below, whose steps are counted alike."""
    chain = (tl.program_id(0) // slices).to(tl.int64)
    first = (tl.program_id(0) % slices) * UNITS
    row = tl.arange(0, {SLOTS} * UNITS)
    slot, unit = row // UNITS, first + row % UNITS
    weight_row = {gate} * H + unit
    k = tl.arange(0, BLOCK_K)
    inside = (k < H)[:, None] & (unit < H)[None, :]
    place = k[:, None] + weight_row[None, :] * H
    state_place = state_weight_ptr + chain * {GATES} * H * H + place
    state_weight = tl.load(state_place, mask=inside{of_state}, other=0.0)
    if STACKED:
        below_place = input_weight_ptr + (chain - 1) * {GATES} * H * H + place
        below_weight = tl.load(below_place, mask=inside{of_input} & (chain > 0), other=0.0)
{bias}
    b = first_b + tl.arange(0, BLOCK_B)
    unit_here = first + tl.arange(0, UNITS)
    here = (b < B)[:, None] & (unit_here < H)[None, :]
    whole = (b < B)[:, None] & (k < H)[None, :]
    start = (chain * B + b)[:, None] * H
    state = tl.load(hidden_ptr + start + k[None, :], mask=whole, other=0.0)
{load_own}
    out_ptr += chain * out_c  # one base and 32-bit places: as many pointers would take a third of the registers
    of_state = b[:, None] * out_b + k[None, :]
    gates = gates_ptr + b[:, None] * gates_b + weight_row[None, :]
    gated = (b < B)[:, None] & (unit < H)[None, :]{of_input}
    backward = chain == 1
    if STACKED:
        backward = chain < 0
        gated = gated & (chain == 0)
    else:
        gates += chain * {GATES} * H
    arrived = arrived_ptr + chain * T
    arrived_below = arrived_ptr + tl.maximum(chain - 1, 0) * T
    of_below = tl.where(chain > 0, slices, 0)  # the lowest layer waits for none
    at = tl.where(backward, T - 1, 0).to(tl.int64)
    x = tl.load(gates + at * gates_t, mask=gated, other=0.0){plus_bias}
    if STACKED:
        while tl.atomic_add(arrived_below, 0, sem="acquire") < of_below:
            pass
        h = tl.load(out_ptr - out_c + of_state, mask=whole & (chain > 0), other=0.0, cache_modifier=".cg")
        x = tl.dot(h, below_weight, x{options})
    for t in range(T):
        product = tl.dot(state, state_weight, x{options})
{step}
        at = tl.where(backward, T - 1 - t, t).to(tl.int64)
        out = out_ptr + at * out_t + b[:, None] * out_b + unit_here[None, :]
        tl.store(out, own.to(out_ptr.dtype.element_ty), mask=here)
        tl.debug_barrier()
        tl.atomic_add(arrived + t, 1, sem="release")
        # While the other slices end their step: what the next step takes from below.
        t_next = tl.minimum(t + 1, T - 1).to(tl.int64)
        at_next = tl.where(backward, T - 1 - t_next, t_next)
        x = tl.load(gates + at_next * gates_t, mask=gated, other=0.0){plus_bias}
        if STACKED:
            while tl.atomic_add(arrived_below + t_next, 0, sem="acquire") < of_below:
                pass
            below = out_ptr - out_c + t_next * out_t + of_state
            h = tl.load(below, mask=whole & (chain > 0), other=0.0, cache_modifier=".cg")
            x = tl.dot(h, below_weight, x{options})
        while tl.atomic_add(arrived + t, 0, sem="acquire") < slices:
            pass
        state = tl.load(out_ptr + at * out_t + of_state, mask=whole, other=0.0, cache_modifier=".cg")
    last = start + unit_here[None, :]
{store_last}
'''

BIAS = """    row_here = chain * {GATES} * H + weight_row
    bias = tl.load(input_bias_ptr + row_here, mask=(unit < H){of_input_row}, other=0.0)
    bias += tl.load(state_bias_ptr + row_here, mask=(unit < H){of_state_row}, other=0.0)
    bias = bias.to(tl.float32)[None, :]"""

QUARTERS = """        even, odd = tl.split(tl.permute(tl.reshape(product, (BLOCK_B, 2, 2, UNITS)), (0, 3, 2, 1)))
"""
STEPS = {
    "lstm": QUARTERS + """        input_gate, forget_gate = tl.split(even)
        new_cell, output_gate = tl.split(odd)
        cell = tl.sigmoid(forget_gate) * cell + tl.sigmoid(input_gate) * tanh(new_cell)
        own = tl.sigmoid(output_gate) * tanh(cell)""",
    "gru": QUARTERS + """        reset, update = tl.split(even)
        new_input, new_state = tl.split(odd)
        new = tanh(new_input + tl.sigmoid(reset) * new_state)
        own = new + tl.sigmoid(update) * (own - new)""",
    "rnn_tanh": "        own = tanh(product)",
    "rnn_relu": "        own = propagate_max(product, 0.0)",
}  # fmt: skip

WRAPPER = '''def {name}(x, {states}, *weights):
    """{doc}"""
    {sizes} = x.shape[:2]
    H = hidden.shape[2]
    units, warps = CONFIG["{name}_UNITS"], CONFIG["{name}_num_warps"]
    slices = triton.cdiv(H, units)
    block_k = max(16, triton.next_power_of_2(H))
{contiguous}
{body}
'''

LAYERS = """    layers = hidden.shape[0]
    resident = CONFIG["{name}_PROGRAMS"] * 4 // warps
    together = max(1, min(layers, CONFIG["{name}_LAYERS"], resident // slices))
    state_weight = torch.stack(weights[1::{per_layer}])
    input_weight = torch.stack(weights[{per_layer}::{per_layer}]) if layers > 1 else state_weight
{stack_biases}    out = torch.empty((layers, T, B, H), device=x.device, dtype=x.dtype)
{empty_last}
    for bottom in range(0, layers, together):
        chains = min(together, layers - bottom)
        gates = {name}_project(x if bottom == 0 else out[bottom - 1], weights[{per_layer} * bottom])
        strides = gates.stride()[:2]{strides_of_first}
        for first_b in range(0, B, 16):
            arrived = torch.zeros((chains, T), device=x.device, dtype=torch.int32)
            {name}_kernel[(chains * slices,)](
                gates, input_weight[bottom:], state_weight[bottom:]{biases_from},
                {states_from}, out[bottom:], {last_from}, arrived,
                T, B, first_b, H, slices, *strides, T * B * H, B * H, H,
                STACKED=together > 1, UNITS=units, BLOCK_B=16, BLOCK_K=block_k,
                num_warps=warps, num_stages=1, launch_cooperative_grid=True,
            )
    return {results}"""

DIRECTIONS = """    layers = hidden.shape[0] // 2
    out = x
{empty_last}
    for layer in range(layers):
        own = weights[2 * {per_layer} * layer : 2 * {per_layer} * (layer + 1)]
        gates = {name}_project(out, torch.cat(own[0::{per_layer}]))
        strides = gates.stride()[:2]{strides_of_first_layer}
        state_weight = torch.stack(own[1::{per_layer}])
{stack_own_biases}        out = torch.empty((T, B, 2 * H), device=x.device, dtype=x.dtype)
        both = slice(2 * layer, 2 * layer + 2)
        for first_b in range(0, B, 16):
            arrived = torch.zeros((2, T), device=x.device, dtype=torch.int32)
            {name}_kernel[(2 * slices,)](
                gates, state_weight, state_weight{biases},
                {states_of_both}, out, {last_of_both}, arrived,
                T, B, first_b, H, slices, *strides, H, B * 2 * H, 2 * H,
                STACKED=False, UNITS=units, BLOCK_B=16, BLOCK_K=block_k,
                num_warps=warps, num_stages=1, launch_cooperative_grid=True,
            )
    return {results}"""
