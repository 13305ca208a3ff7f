"""Hardware specifications: complete, sourced, plausible, extensible; and clear errors for bad files."""

import pytest

from egg_graph.knowledge import detect_hardware, hardware_keys, load_hardware
from egg_graph.schema import BadInput

NAMED = ("a100", "h100", "h200", "b200", "l4", "rtx4090", "mi300x")
OWN = """
key = "{key}"
name = "My GPU"
vendor = "amd"
arch = "gfx90a"
detect = ["My GPU 1"]

[figures]
dram_bandwidth = {{ value = 1.6e12, unit = "{unit}", source = "my data sheet" }}
dram_capacity = {{ value = 64e9, unit = "byte", source = "my data sheet" }}
shared_memory_per_block = {{ value = 65536, unit = "byte", source = "{source}" }}
shared_memory_per_multiprocessor = {{ value = 65536, unit = "byte", source = "my data sheet" }}
multiprocessors = {{ value = {units}, unit = "compute units", source = "my data sheet" }}
registers_per_multiprocessor = {{ value = 131072, unit = "32-bit registers", source = "my data sheet" }}
max_warps_per_multiprocessor = {{ value = 32, unit = "wavefronts", source = "my data sheet" }}
max_blocks_per_multiprocessor = {{ value = 32, unit = "workgroups", source = "my data sheet" }}
warp_size = {{ value = 64, unit = "threads", source = "my data sheet" }}
{extra}
"""
FP32 = 'peak_fp32 = { value = 45.3e12, unit = "flop/s", source = "my data sheet" }'


def own(folder, key="mine", unit="byte/s", source="my data sheet", units=104, extra=FP32):
    text = OWN.format(key=key, unit=unit, source=source, units=units, extra=extra)
    (folder / f"hardware_{key}.toml").write_text(text)
    return folder


def test_the_gpus_that_matter_are_there():
    assert set(NAMED) <= set(hardware_keys())


@pytest.mark.parametrize("key", hardware_keys())
def test_every_figure_is_positive_with_unit_and_source(key):
    hardware = load_hardware(key)
    assert hardware.key == key
    for name, figure in hardware.figures.items():
        assert figure.value > 0 and figure.unit and len(figure.source) > 10, name


@pytest.mark.parametrize("key", hardware_keys())
def test_figures_agree_with_each_other(key):
    hardware = load_hardware(key)
    assert hardware.peak("ieee") <= hardware.peak("tf32") <= hardware.peak("bf16") <= 2.1 * hardware.peak("fp16")
    assert hardware.figure("shared_memory_per_block") <= hardware.figure("shared_memory_per_multiprocessor")
    assert 0.1e12 < hardware.figure("dram_bandwidth") < 20e12
    flops_per_byte = hardware.peak("bf16") / hardware.figure("dram_bandwidth")
    assert 100 < flops_per_byte < 500, "dense rates, in flop/s, against byte/s"


@pytest.mark.parametrize(
    ("key", "arch", "shared"),
    [
        ("a100", "sm_80", 166912),
        ("h100", "sm_90", 232448),
        ("h200", "sm_90", 232448),
        ("b200", "sm_100", 232448),
        ("l4", "sm_89", 101376),
        ("rtx4090", "sm_89", 101376),
        ("mi300x", "gfx942", 65536),
    ],
)
def test_targets_and_shared_memory(key, arch, shared):
    hardware = load_hardware(key)
    assert (hardware.arch, hardware.figure("shared_memory_per_block")) == (arch, shared)


def test_rates_are_dense():
    assert load_hardware("h200").peak("tf32") == pytest.approx(494.5e12, rel=0.01)
    assert load_hardware("mi300x").peak("tf32") == pytest.approx(653.7e12)
    assert load_hardware("l4").peak("bf16") == pytest.approx(121e12)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("A100-SXM4-40GB", "a100_40gb"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("AMD Instinct MI300X", "mi300x"),
        ("card0,AMD Instinct MI300X,0x74a1", "mi300x"),
        ("NVIDIA L40S", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA H200 MIG 1g.18gb", None),
        ("NVIDIA H100 NVL", None),
        ("", None),
    ],
)
def test_a_gpu_is_detected_by_its_whole_name_only(name, key):
    assert detect_hardware(name) == key


def test_a_folder_of_ones_own_adds_and_overrides(tmp_path):
    own(own(tmp_path), key="h200")
    assert load_hardware("mine", tmp_path).figure("multiprocessors") == 104
    assert load_hardware("h200", tmp_path).name == "My GPU"
    assert load_hardware("h100", tmp_path) == load_hardware("h100")
    assert {"mine", "h100"} <= set(hardware_keys(tmp_path))
    assert "mine" not in hardware_keys()
    assert detect_hardware("My GPU 1", tmp_path) == "mine"


def test_a_gpu_without_tf32_units_says_so_by_having_no_rate(tmp_path):
    hardware = load_hardware("mine", own(tmp_path))
    assert hardware.peak("ieee") == 45.3e12
    with pytest.raises(KeyError, match="peak_tf32"):
        hardware.peak("tf32")


def test_an_unknown_key_lists_the_known_ones():
    with pytest.raises(BadInput, match=r"'h20': unknown; choose one of a100, .*hardware_h20\.toml"):
        load_hardware("h20")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"unit": "GB/s"}, r"hardware_mine\.toml: figures\.dram_bandwidth: unit 'GB/s'; convert to 'byte/s'"),
        ({"source": " "}, r"figures\.shared_memory_per_block: no source"),
        ({"units": 0}, r"figures\.multiprocessors: 0 is not positive"),
        ({"units": '"many"'}, r"figures\.multiprocessors\.value: Input should be a valid number.*got 'many'"),
        ({"extra": ""}, r"figures\.peak_fp32: missing; add peak_fp32"),
        ({"extra": "peak_fp32 = "}, r"hardware_mine\.toml: not valid TOML: .*line"),
        ({"extra": FP32 + '\nmax_clock = { value = 1, unit = "Hz" }'}, r"figures\.max_clock\.source: Field required"),
    ],
)
def test_a_bad_file_gives_one_clear_line(tmp_path, change, said):
    with pytest.raises(BadInput, match=said) as error:
        hardware_keys(own(tmp_path, **change))
    assert "\n" not in str(error.value) and str(tmp_path) in str(error.value)


def test_a_misspelt_key_is_named(tmp_path):
    file = own(tmp_path) / "hardware_mine.toml"
    file.write_text(file.read_text().replace("vendor", "vender"))
    with pytest.raises(BadInput, match=r"vend.r: .*(add it|remove it or correct its spelling)"):
        load_hardware("mine", tmp_path)


def test_a_missing_folder_and_bad_bytes_are_named(tmp_path):
    with pytest.raises(BadInput, match="no such folder"):
        hardware_keys(tmp_path / "nowhere")
    (tmp_path / "hardware_x.toml").write_bytes(b'key = "\xff"')
    with pytest.raises(BadInput, match="not UTF-8"):
        hardware_keys(tmp_path)
