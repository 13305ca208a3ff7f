"""What compiled code makes of lanes that a load masks off."""

from egg_graph.evaluator.aot.masked_loads import leaves_lanes_undefined

LOAD = "\t// begin inline asm\n\t{}@%p1 ld.global.v2.b32 {{ %r1, %r2 }}, [ %rd1 + 0 ];\n\t// end inline asm\n"


def test_registers_that_are_set_before_a_masked_load_are_defined() -> None:
    assert not leaves_lanes_undefined(LOAD.format("mov.u32 %r1, 0x0;\n\tmov.u32 %r2, %r9;\n\t"))
    assert not leaves_lanes_undefined("cp.async.cg.shared.global [ %r35 + 0 ], [ %rd8 + 0 ], 0x10, %r36;\n")


def test_an_asynchronous_copy_fills_what_its_mask_leaves_out_whichever_threads_make_it() -> None:
    assert not leaves_lanes_undefined("@%p2 cp.async.ca.shared.global [ %r51 + 0 ], [ %rd16 + 0 ], 0x4, %r52;\n")
    assert not leaves_lanes_undefined("@%p2 cp.async.ca.shared.global [ %r51 + 0 ], [ %rd16 + 0 ], 0x4, 0x4;\n")


def test_registers_that_keep_what_they_held_are_not() -> None:
    assert leaves_lanes_undefined(LOAD.format("mov.u32 %r1, 0x0;\n\t"))
    assert leaves_lanes_undefined(LOAD.format(""))
    assert leaves_lanes_undefined("@%p3 cp.async.cg.shared.global [ %r35 + 0 ], [ %rd8 + 0 ], 0x10;\n")
