"""What is read from machine code, whatever the vendor."""

from dataclasses import dataclass, field


@dataclass
class Binary:
    """One kernel's machine code, counted."""

    registers: int = 0
    """Per thread."""
    spill_bytes: int = 0
    """Per thread."""
    tensor_core: dict[str, int] = field(default_factory=dict)
    """Matrix instructions, e.g. {"HGMMA": 4} or {"v_mfma_f32_32x32x8_bf16": 48}."""
    memory: dict[str, int] = field(default_factory=dict)
    """Memory instructions by width [bit], e.g. {"LDG.128": 4}."""
    instructions: int = 0
