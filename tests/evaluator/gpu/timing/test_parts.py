"""The parts of timing, each by itself: clocks, encrypted inputs, comparisons, the order of a call, the memory floor."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import triton

from egg_graph.evaluator.device.layout import Layout
from egg_graph.evaluator.device.ptx import PTX
from egg_graph.evaluator.device.stream_timer import DeviceBuffer, EncryptedInputs, HostLatency, StreamTimer, spin_ns_for
from egg_graph.evaluator.gpu import floor
from egg_graph.evaluator.gpu.floor import MemoryFloor, memory_floor
from egg_graph.evaluator.gpu.timing import host_times
from egg_graph.evaluator.gpu.timing.agreement import (
    Burst,
    Excess,
    compare_clocks,
    device_clock,
    event_clock,
    host_clock,
)
from egg_graph.evaluator.gpu.timing.controls import Controls
from egg_graph.evaluator.gpu.timing.session import PairedBlock, TimingSession
from egg_graph.evaluator.gpu.timing.statistics import ratio_interval
from egg_graph.evaluator.gpu.timing.timed_answers import allowed_difference, relative_difference
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.schema import Clock, Hardware
from tests.evaluator.gpu.timing.pretend_driver import PretendDriver


def test_disturbance_of_whole_blocks_widens_the_interval() -> None:
    random = np.random.default_rng(0)
    baseline = 1 + 0.01 * random.standard_normal(64)
    disturbed = np.repeat(1 + 0.2 * random.standard_normal(16), 4) + 0.01 * random.standard_normal(64)
    ratio, low, high = ratio_interval(disturbed, baseline, block=4)
    alone = ratio_interval(disturbed, baseline)
    assert low < ratio < high
    assert high - low > 1.2 * (alone[2] - alone[1])


def clocks(events: float, device: float, host: float, noise: float = 0.0) -> tuple[Clock, Clock, Clock]:
    return (
        Clock(name="events", milliseconds=events),
        Clock(name="device", milliseconds=device),
        Clock(name="host", milliseconds=host, noise_ms=noise),
    )


@pytest.mark.parametrize(
    ("times", "agrees", "understates"),
    [
        ((1.0, 1.05, 0.9), True, False),  # a tenth is agreement; a host that tells less than events accuses nobody
        ((0.005, 0.0075, 0.007), True, False),  # so are 3 us
        ((1.0, 1.2, 1.0), False, False),
        ((1.0, 1.0, 1.2), False, False),
        ((1.0, 1.3, 1.0), False, True),
        ((0.001, 1.0, 1.0), False, True),
        ((0.001, 0.001, 1.0), False, True),
        ((0.010, 0.019, 0.010), False, False),  # 9 us: more than a quarter, and yet too little to accuse anyone
        ((2.0, 1.0, 1.0), False, False),  # events are the largest clock, so they understate nothing
    ],
)
def test_three_clocks_agree_disagree_or_understate(
    times: tuple[float, float, float], agrees: bool, understates: bool
) -> None:
    found = compare_clocks(*clocks(*times))
    assert (found.agrees, found.understates) == (agrees, understates)
    assert found.counts.milliseconds == (times[0] if agrees else max(times))


def test_noise_of_the_host_accuses_nobody_and_a_host_that_waits_may_take_its_time() -> None:
    assert compare_clocks(*clocks(1.0, 1.0, 1.5, noise=0.14)).agrees
    assert not compare_clocks(*clocks(1.0, 1.0, 1.5, noise=0.10)).agrees
    waiting = compare_clocks(*clocks(0.10, 0.12, 0.17), waits_ms=0.02)
    assert not waiting.agrees
    assert not waiting.understates
    assert compare_clocks(*clocks(0.10, 0.10, 0.60), waits_ms=0.02).understates


def test_many_short_kernels_may_take_longer_in_a_long_queue() -> None:
    assert compare_clocks(*clocks(0.046, 0.045, 0.065), launches=20).agrees
    assert not compare_clocks(*clocks(0.046, 0.045, 0.065)).agrees
    assert compare_clocks(*clocks(0.046, 0.045, 0.100), launches=10_000).understates


def test_a_burst_of_one_call_accuses_nobody_and_its_clock_counts() -> None:
    """Once a right kernel of 2^31 elements was refused, whose bursts have one call: events 1.48 ms, host 1.99 ms."""
    alone = compare_clocks(*clocks(1.479, 1.476, 1.988), burst_calls=1)
    assert not alone.agrees and not alone.understates and alone.counts.name == "host"
    assert compare_clocks(*clocks(1.479, 1.476, 1.988), burst_calls=2).understates
    assert compare_clocks(*clocks(1.0, 1.5, 1.0), burst_calls=1).understates, "the GPU's own clock accuses as before"


def test_what_clocks_exceed_events_by_on_others_is_harmless() -> None:
    slow, null = clocks(4.0, 4.2, 4.8), clocks(1.0, 1.0, 1.1)
    excess = Controls(slow, null).harmless(1.0)
    assert (excess.device_ms, excess.host_ms) == (pytest.approx(0.05), pytest.approx(0.2)), (
        "a quarter of the baseline's"
    )
    assert Controls(clocks(0.1, 0.1, 0.3), null).harmless(1.0).host_ms == pytest.approx(0.2), "and never more than it"
    assert Controls(clocks(1.0, 0.9, 0.8), clocks(1.0, 0.9, 0.9)).harmless(1.0) == Excess()
    assert not compare_clocks(*clocks(1.0, 1.0, 1.3)).agrees
    busy = compare_clocks(*clocks(1.0, 1.0, 1.3), harmless=Excess(host_ms=0.25))
    assert busy.agrees and busy.counts.name == "events"
    assert compare_clocks(*clocks(1.0, 1.0, 1.6), harmless=Excess(host_ms=0.25)).understates
    assert compare_clocks(*clocks(1.0, 1.6, 1.0), harmless=Excess(host_ms=0.25)).understates
    assert not compare_clocks(*clocks(1.0, 1.3, 1.0), harmless=Excess(device_ms=0.05)).agrees


def test_time_on_the_host_is_told_for_both_sides_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls back to back by the judge's clock, without what asking another process takes."""
    now = [0.0]

    def ask(do: str, calls: int = 0) -> None:
        now[0] += 1e-3 * (0.3 + 0.4 * calls)

    def call_repeatedly(calls: int) -> None:
        now[0] += 1e-3 * 0.5 * calls

    monkeypatch.setattr(host_times, "time", SimpleNamespace(monotonic=lambda: now[0]))
    baseline = SimpleNamespace(
        best="eager", latencies={"eager": HostLatency(0.1, 0.5)}, call_repeatedly=call_repeatedly
    )
    told = host_times.measure_host_times(SimpleNamespace(ask=ask), baseline, HostLatency(0.1, 0.4))  # type: ignore[arg-type]
    assert (told.candidate_ms, told.baseline_ms) == (pytest.approx(0.4), pytest.approx(0.5))


def test_the_host_clock_is_what_forwards_add_to_a_burst() -> None:
    more = [Burst(4, wall, -1.0) for wall in (10.0, 10.2, 9.8, 30.0)]
    less = [Burst(4, wall, -1.0) for wall in (2.0, 2.1, 1.9, 2.0)]
    clock = host_clock(more, less)
    assert clock.milliseconds == pytest.approx((9.8 - 1.9) / 4), "a busy host only adds"
    assert 0 < clock.noise_ms < 0.1
    assert not more[0].host_bound
    assert Burst(4, 10.0, 0.5).host_bound


def test_the_device_clock_leaves_out_what_lies_between_two_stamps_anyway() -> None:
    clock = device_clock([(1000, 1_104_000), (5000, 1_108_000)], empty_ms=0.003, resolution_ns=32)
    assert clock.milliseconds == pytest.approx(1.1)
    assert clock.noise_ms == pytest.approx(32e-6)
    assert event_clock([1.0, 3.0, 2.0]).milliseconds == 2.0


def test_a_set_of_inputs_survives_packing_and_encryption_with_its_forms() -> None:
    inputs = [torch.randn(3, 5).t(), 7, {"mask": torch.tensor([True, False]), "none": torch.empty(0, 4)}, (2.5, "s")]
    layout = Layout.of(inputs)
    assert layout.nbytes % 256 == 0
    plain, staging, place = (torch.zeros(layout.nbytes, dtype=torch.uint8) for _ in range(3))
    layout.pack(inputs, plain)
    gpu = PretendDriver()
    gpu.xor_keystream(plain.data_ptr(), staging.data_ptr(), layout.nbytes, 99)
    assert not torch.equal(staging, plain)
    gpu.xor_keystream(staging.data_ptr(), place.data_ptr(), layout.nbytes, 99)
    again = layout.views(place)
    assert torch.equal(again[0], inputs[0])
    assert again[0].stride() == inputs[0].stride()
    assert torch.equal(again[2]["mask"], inputs[2]["mask"])
    assert again[2]["none"].shape == (0, 4)
    assert again[1] == 7
    assert again[3] == (2.5, "s")


def test_every_call_spins_decrypts_flushes_and_only_then_starts_the_clock() -> None:
    gpu, memory = PretendDriver(), torch.zeros(512, dtype=torch.uint8)
    timer = StreamTimer(gpu, DeviceBuffer(memory.data_ptr(), 64))
    buffer = DeviceBuffer(memory.data_ptr() + 64, 64)
    call = timer.time_call(
        lambda: gpu.steps.append("forward"),
        inputs=EncryptedInputs(buffer, buffer, 3),
        spin_ns=5,
        flush_value=7,
        timestamps=memory.data_ptr() + 256,
        deliver=lambda result: gpu.steps.append("deliver"),
    )
    order = [
        "spin",
        "decrypt",
        "flush",
        "timestamp",
        "event",
        "forward",
        "event",
        "timestamp",
        "deliver",
        "synchronize",
    ]
    assert gpu.steps == order
    assert call.event_ms == 1.0
    assert memory[:4].tolist() == [7, 0, 0, 0]
    assert memory[256:272].view(torch.int64).tolist() == [0, 1_000_000]


def test_the_spin_outlasts_the_queueing_of_a_forward() -> None:
    assert HostLatency(0.001, 1.0).spin_ns == 250_000
    assert HostLatency(2.0, 3.0).spin_ns == 6_000_000
    assert spin_ns_for(900.0) == 20_000_000


def leaf(expected: torch.Tensor, budget: float = 1e-3, slack: float = 1e-2) -> ExpectedLeaf:
    wide = expected.double() if expected.is_floating_point() else expected
    return ExpectedLeaf(wide, expected.dtype, budget, slack, pytorch_error=budget / 4)


def test_a_timed_answer_may_err_as_much_as_both_sides_do() -> None:
    expected = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    own = leaf(expected)
    assert relative_difference(expected.clone(), expected, own) == 0.0
    assert relative_difference(expected * 1.001, expected, own) == pytest.approx(1e-3, rel=1e-3)
    assert allowed_difference(own) == pytest.approx(1.25e-3)
    spoilt = expected.clone()
    spoilt[3, 4] += 1.0
    assert relative_difference(spoilt, expected, own) == float("inf")
    spoilt[3, 4] = float("nan")
    assert relative_difference(spoilt, expected, own) == float("inf")


def test_a_far_element_may_be_as_far_off_as_it_is_large() -> None:
    expected = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    expected[3, 4] = 1e4
    answer = expected.clone()
    answer[3, 4] += 100.0  # 16 budgets of 1e4 are 160
    assert relative_difference(answer, expected, leaf(expected)) == pytest.approx(1e-2, rel=1e-2)
    answer[3, 4] += 100.0
    assert relative_difference(answer, expected, leaf(expected)) == float("inf")


@pytest.mark.parametrize("size", [1e-25, 1e25])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_answers_whose_squares_fp32_does_not_hold_are_compared_all_the_same(size: float, dtype: torch.dtype) -> None:
    expected = torch.randn(64, 64, generator=torch.Generator().manual_seed(0), dtype=dtype) * size
    own = leaf(expected, slack=1e-2 * size)
    assert relative_difference(expected * 1.001, expected, own) == pytest.approx(1e-3, rel=1e-3)
    assert relative_difference(torch.zeros_like(expected), expected, own) == float("inf")


def test_infinities_integers_and_nothing_compare_as_themselves() -> None:
    expected = torch.tensor([1.0, float("inf"), float("nan"), -float("inf")])
    assert relative_difference(expected.clone(), expected, leaf(expected)) == 0.0
    assert relative_difference(expected.nan_to_num(0.0), expected, leaf(expected)) == float("inf")
    counts = torch.tensor([1, 2, 3, 4])
    assert relative_difference(torch.tensor([1, 2, 3, 5]), counts, leaf(counts)) == 0.25
    assert relative_difference(torch.empty(0), torch.empty(0), leaf(torch.empty(0))) == 0.0


@pytest.fixture
def at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floor, "_is_this_gpu", lambda hardware: True)
    properties = SimpleNamespace(L2_cache_size=1 << 20)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device=None: properties)


def test_the_floor_counts_only_what_is_certainly_moved(at_hand: None, h200: Hardware) -> None:
    x, n = torch.randn(1024, 512), 1024 * 512 * 4
    assert memory_floor(lambda a: a.relu(), [x], h200).bytes == n + n - (1 << 20)
    assert memory_floor(lambda a: a.sum(), [x], h200).bytes == n
    assert memory_floor(lambda a: a[:3].sum(), [x], h200).bytes == 0  # three rows may be all that is read
    assert memory_floor(lambda a, i: a[i].sum(), [x, torch.tensor([1])], h200).bytes == 0
    assert memory_floor(lambda a: (a + 1)[:3], [x], h200).bytes == 0  # and here
    assert memory_floor(lambda a: a.view(512, 1024).sum(), [x], h200).bytes == n
    square = torch.randn(1024, 1024)
    whole = 2 * 4 * 1024**2
    assert memory_floor(lambda a, b: (a @ b).sum(), [square, square.clone()], h200).bytes == whole
    assert memory_floor(lambda a, b: (a @ b).sum(), [square.tril(), square.clone()], h200).bytes == whole / 2
    assert memory_floor(lambda a, b: (a @ b).sum(), [square + square.t(), square.clone()], h200).bytes == whole / 2
    assert memory_floor(lambda a: a.sum(), [torch.ones(1024, 1024)], h200).bytes == 0


def test_another_gpu_than_the_target_has_no_floor(h200: Hardware) -> None:
    assert memory_floor(lambda a: a.relu(), [torch.randn(1024, 512)], h200) == MemoryFloor(0.0, 0.0)
    assert MemoryFloor(0.0, 0.0).check(1e-9) is None


def test_the_alarm_sounds_below_nine_tenths_of_the_floor() -> None:
    own = MemoryFloor(bytes=4.8e9, bandwidth=4.8e12)  # a millisecond
    assert own.check(0.91) is None
    alarm = own.check(0.5)
    assert alarm is not None
    assert alarm.kind == "below_roofline"
    assert "9600 GB/s" in alarm.message


def test_the_kernels_of_the_clock_assemble(tmp_path: Path) -> None:
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    source = tmp_path / "kernels.ptx"
    source.write_text(PTX)
    for arch in ("sm_70", "sm_90"):
        done = subprocess.run([tool, f"-arch={arch}", source, "-o", source.with_suffix(".cubin")], capture_output=True)
        assert done.returncode == 0, done.stderr


def test_the_interval_covers_the_ratio_and_says_when_it_cannot_tell() -> None:
    rng = np.random.default_rng(0)
    base, noise = rng.normal(1.0, 0.02, 60), rng.normal(1.0, 0.02, 60)
    ratio, low, high = ratio_interval(base / 1.5 * noise, base)
    assert low < ratio < high
    assert 1.45 < low < 1.5 < high < 1.55
    _, low, high = ratio_interval(base, base * noise)
    assert low < 1.0 < high
    assert ratio_interval(base, base * 2) == ratio_interval(base, base * 2)


def test_a_slow_host_gives_either_side_a_longer_spin() -> None:
    spins = SimpleNamespace(spin_ns=250_000, baseline_spin_ns=250_000)
    block = PairedBlock(queue_ms=[0.1] * 4, baseline_queue_ms=[0.4] * 4)
    assert TimingSession.adjust_spins(spins, block)  # type: ignore[arg-type]
    assert (spins.spin_ns, spins.baseline_spin_ns) == (300_000, 1_200_000)
