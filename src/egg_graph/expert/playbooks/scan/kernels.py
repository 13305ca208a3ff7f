"""Kernel and launch templates of a scan: a row in pieces, rows by blocks, columns by blocks."""

PIECES = '''@triton.jit
def {name}_kernel({pointers}, n,{numbers} PIECES: tl.constexpr, PIECE: tl.constexpr, ROUNDS: tl.constexpr):
    """One row per program, as PIECES x PIECE numbers in registers: scan inside each piece, then add the sum of all
    pieces {side} it. A row that does not fit in the registers goes in several rounds with a carry."""
    row = tl.program_id(0).to(tl.int64) * n
    piece = tl.arange(0, PIECES)
    within = piece[:, None] * PIECE + tl.arange(0, PIECE)[None, :]
    carry = tl.zeros((), dtype={dtype})
    for i in tl.static_range(ROUNDS):
        position = {static_round} * (PIECES * PIECE) + within
        mask = position < n
        offset = row + position
{load}
        totals = tl.sum(x, 1)
        # Taken from the neighbour, not by subtraction: an infinite total would leave NaN behind.
        scanned = tl.cumsum(totals, 0{reverse})
        {side} = tl.where(piece == {first}, 0, tl.gather(scanned, {neighbour}, 0))
        scan = tl.cumsum(x, 1{reverse}) + ({side} + carry)[:, None]
        carry += tl.sum(totals, 0)
{store}
'''

ROWS = '''@triton.jit
def {name}_kernel({pointers}, rows, n,{numbers} ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """ROWS rows per program, BLOCK numbers of each at a time; `carry` is the {word} of the blocks {side}."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    carry = tl.full((ROWS,), {neutral}, dtype={dtype})
    rounds = tl.cdiv(n, BLOCK)
    for i in range(0, rounds):
        position = {round} * BLOCK + tl.arange(0, BLOCK)
        mask = (row < rows)[:, None] & (position < n)[None, :]
        offset = row.to(tl.int64)[:, None] * n + position[None, :]
{load}
        scan = tl.{function}(x, 1{reverse}) {operator} carry[:, None]
        carry = {last}
{store}
'''

COLUMNS = '''@triton.jit
def {name}_kernel({pointers}, n, inner,{numbers} BLOCK: tl.constexpr, COLUMNS: tl.constexpr):
    """A scan down a dimension that is not the last: COLUMNS neighbours side by side, BLOCK numbers of each at a time;
    `carry` is the {word} of the blocks {side}."""
    tiles = tl.cdiv(inner, COLUMNS)
    outer = (tl.program_id(0) // tiles).to(tl.int64)
    column = (tl.program_id(0) % tiles) * COLUMNS + tl.arange(0, COLUMNS)
    carry = tl.full((COLUMNS,), {neutral}, dtype={dtype})
    rounds = tl.cdiv(n, BLOCK)
    for i in range(0, rounds):
        position = {round} * BLOCK + tl.arange(0, BLOCK)
        mask = (position < n)[:, None] & (column < inner)[None, :]
        offset = (outer * n + position)[:, None] * inner + column[None, :]
{load}
        scan = tl.{function}(x, 0{reverse}) {operator} carry[None, :]
        carry = {last}
{store}
'''

LAUNCHES = {
    "pieces": """    pieces = CONFIG["{name}_PIECES"]
    most = {per_thread} * 32 * CONFIG["{name}_num_warps"] // pieces  # {per_thread} numbers in each thread's registers
    piece = min(most, triton.next_power_of_2(triton.cdiv(n, pieces)))
    {name}_kernel[(rows,)](
        {arguments}, n,{numbers}
        PIECES=pieces,
        PIECE=piece,
        ROUNDS=triton.cdiv(n, pieces * piece),
        num_warps=CONFIG["{name}_num_warps"],
        num_stages=1,
    )
""",
    "rows": """    {name}_kernel[(triton.cdiv(rows, CONFIG["{name}_ROWS"]),)](
        {arguments}, rows, n,{numbers}
        ROWS=CONFIG["{name}_ROWS"],
        BLOCK=CONFIG["{name}_BLOCK"],
        num_warps=CONFIG["{name}_num_warps"],
        num_stages=CONFIG["{name}_num_stages"],
    )
""",
    "columns": """    {name}_kernel[(rows * triton.cdiv(inner, CONFIG["{name}_COLUMNS"]),)](
        {arguments}, n, inner,{numbers}
        BLOCK=CONFIG["{name}_BLOCK"],
        COLUMNS=CONFIG["{name}_COLUMNS"],
        num_warps=CONFIG["{name}_num_warps"],
        num_stages=CONFIG["{name}_num_stages"],
    )
""",
}
KERNELS = {"pieces": PIECES, "rows": ROWS, "columns": COLUMNS}
