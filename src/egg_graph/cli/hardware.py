"""`egg-graph hardware`: the GPUs that a kernel can be written for."""

from typing import Annotated

import typer
from rich.table import Table

from egg_graph.cli.console import plain, stdout


def hardware(
    key: Annotated[str | None, typer.Argument(help="A GPU's key, to see every figure of it with its source.")] = None,
    folder: Annotated[
        str | None, typer.Option("--knowledge", help="Folder with hardware_*.toml files of your own.")
    ] = None,
) -> None:
    """List the GPUs a kernel can be written for, or show one with the source of every figure."""
    if key is None:
        _list(folder)
    else:
        _show(key, folder)


def _list(folder: str | None) -> None:
    from egg_graph.knowledge import hardware_keys, load_hardware

    table = Table(
        "key", "GPU", "arch", "DRAM [TB/s]", "TF32 [TFLOP/s]", "fp32 [TFLOP/s]", box=None, header_style="bold"
    )
    for known in hardware_keys(folder):
        gpu = load_hardware(known, folder)
        rates = [gpu.figures.get(name) for name in ("dram_bandwidth", "peak_tf32", "peak_fp32")]
        table.add_row(
            plain(known),
            plain(gpu.name),
            plain(gpu.arch),
            *("-" if f is None else f"{f.value / 1e12:.{digits}f}" for f, digits in zip(rates, (2, 1, 1), strict=True)),
        )
    stdout().print(table)


def _show(key: str, folder: str | None) -> None:
    from egg_graph.knowledge import load_hardware

    gpu = load_hardware(key, folder)
    console = stdout()
    console.print(f"[bold]{plain(gpu.name)}[/] ({plain(gpu.vendor)}, {plain(gpu.arch)})")
    table = Table("figure", "value", "unit", "source", box=None, header_style="bold")
    for name, figure in gpu.figures.items():
        table.add_row(plain(name), f"{figure.value:,.6g}", plain(figure.unit), plain(figure.source))
    console.print(table)
    for note in gpu.notes:
        console.print(f"- {plain(note)}")
