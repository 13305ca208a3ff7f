"""Four small PTX kernels of the timing code: `write_timestamp`, `spin`, `watch_clock` and `xor_keystream`.

`CudaDriver` loads and launches them without PyTorch and Triton. So nothing that a candidate changes in either reaches
them, and one launch costs the host a few microseconds.
"""

_HEADER = ".version 7.0\n.target sm_70\n.address_size 64\n"

_WRITE_TIMESTAMP = """
.visible .entry write_timestamp(.param .u64 where) {
  .reg .u64 %a<3>;
  ld.param.u64 %a0, [where];
  cvta.to.global.u64 %a1, %a0;
  mov.u64 %a2, %globaltimer;
  st.global.u64 [%a1], %a2;
  ret;
}
"""
_SPIN = """
.visible .entry spin(.param .u64 duration) {
  .reg .u64 %a<4>;
  .reg .pred %p;
  ld.param.u64 %a0, [duration];
  mov.u64 %a1, %globaltimer;
again:
  mov.u64 %a2, %globaltimer;
  sub.u64 %a3, %a2, %a1;
  setp.lt.u64 %p, %a3, %a0;
  @%p bra again;
  ret;
}
"""
_WATCH_CLOCK = """
.visible .entry watch_clock(.param .u64 where, .param .u64 duration) {
  .reg .u64 %a<9>;
  .reg .pred %p, %q;
  ld.param.u64 %a0, [where];
  cvta.to.global.u64 %a0, %a0;
  ld.param.u64 %a1, [duration];
  mov.u64 %a2, %globaltimer;
  mov.u64 %a3, %a2;
  mov.u64 %a4, 0;
  mov.u64 %a8, 0xffffffffffffffff;
more:
  mov.u64 %a5, %globaltimer;
  sub.u64 %a6, %a5, %a3;
  mov.u64 %a3, %a5;
  max.u64 %a4, %a4, %a6;
  setp.ne.u64 %q, %a6, 0;
  @%q min.u64 %a8, %a8, %a6;
  sub.u64 %a7, %a5, %a2;
  setp.lt.u64 %p, %a7, %a1;
  @%p bra more;
  st.global.u64 [%a0], %a4;
  st.global.u64 [%a0+8], %a8;
  ret;
}
"""
ROUNDS = 10
"""Rounds of Philox-4x32."""
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
"""Multipliers of the two products in one Philox round."""
INCREMENTS = (0x9E3779B9, 0xBB67AE85)
"""What is added to the two key words after each round."""


def _xor_keystream() -> str:
    """Write the kernel that XORs 16-byte pieces with the Philox-4x32-10 keystream of a 64-bit key.

    Piece i is encrypted with the Philox block of counter i. The same kernel encrypts and decrypts.
    Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011).
    """
    body = [
        ".visible .entry xor_keystream(.param .u64 source, .param .u64 target, .param .u64 pieces,",
        "                              .param .u32 low, .param .u32 high) {",
        "  .reg .u64 %s, %t, %n, %i, %step, %a, %b, %w;",
        "  .reg .u32 %k<2>, %l<2>, %c<4>, %d<4>, %v<4>, %x<4>;",
        "  .reg .pred %p;",
        "  ld.param.u64 %s, [source];",
        "  cvta.to.global.u64 %s, %s;",
        "  ld.param.u64 %t, [target];",
        "  cvta.to.global.u64 %t, %t;",
        "  ld.param.u64 %n, [pieces];",
        "  ld.param.u32 %k0, [low];",
        "  ld.param.u32 %k1, [high];",
        "  mov.u32 %x0, %ctaid.x;",
        "  mov.u32 %x1, %ntid.x;",
        "  mov.u32 %x2, %tid.x;",
        "  mov.u32 %x3, %nctaid.x;",
        "  mul.wide.u32 %i, %x0, %x1;",
        "  cvt.u64.u32 %w, %x2;",
        "  add.u64 %i, %i, %w;",
        "  mul.wide.u32 %step, %x3, %x1;",
        "next:",
        "  setp.ge.u64 %p, %i, %n;",
        "  @%p bra done;",
        "  mov.b64 {%c0, %c1}, %i;",
        "  mov.u32 %c2, 0;",
        "  mov.u32 %c3, 0;",
        "  mov.u32 %l0, %k0;",
        "  mov.u32 %l1, %k1;",
    ]
    for number in range(ROUNDS):
        body += [
            f"  mul.hi.u32 %d0, %c0, {MULTIPLIERS[0]};",
            f"  mul.lo.u32 %d1, %c0, {MULTIPLIERS[0]};",
            f"  mul.hi.u32 %d2, %c2, {MULTIPLIERS[1]};",
            f"  mul.lo.u32 %d3, %c2, {MULTIPLIERS[1]};",
            "  xor.b32 %c0, %d2, %c1;",
            "  xor.b32 %c0, %c0, %l0;",
            "  mov.u32 %c1, %d3;",
            "  xor.b32 %c2, %d0, %c3;",
            "  xor.b32 %c2, %c2, %l1;",
            "  mov.u32 %c3, %d1;",
        ]
        if number < ROUNDS - 1:
            body += [f"  add.u32 %l0, %l0, {INCREMENTS[0]};", f"  add.u32 %l1, %l1, {INCREMENTS[1]};"]
    body += [
        "  shl.b64 %w, %i, 4;",
        "  add.u64 %a, %s, %w;",
        "  add.u64 %b, %t, %w;",
        "  ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%a];",
        *(f"  xor.b32 %v{n}, %v{n}, %c{n};" for n in range(4)),
        "  st.global.v4.u32 [%b], {%v0, %v1, %v2, %v3};",
        "  add.u64 %i, %i, %step;",
        "  bra next;",
        "done:",
        "  ret;",
        "}",
    ]
    return "\n" + "\n".join(body) + "\n"


PTX = _HEADER + _WRITE_TIMESTAMP + _SPIN + _WATCH_CLOCK + _xor_keystream()
