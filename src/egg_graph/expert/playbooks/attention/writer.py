"""Write the kernel and the wrapper of one attention from the templates."""

import json

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.expressions import literal
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.playbooks.attention import kernels
from egg_graph.expert.playbooks.attention.match import Attention
from egg_graph.expert.playbooks.knobs import power_of_two
from egg_graph.schema import FP32, TF32, Hardware, Precision

LOG2E = 1.4426950408889634
BARRIERS = 1024
"""Bytes of shared memory beside the tiles: barriers, and what reductions exchange."""


class AttentionWriter:
    """Writes one attention. fp32 operands are rounded under TF32 on NVIDIA GPUs and multiplied as fp32 elsewhere."""

    def __init__(
        self, graph: CapturedGraph, group: Group, found: Attention, name: str, precision: Precision,
        target: Hardware | None,
    ) -> None:  # fmt: skip
        self.graph, self.group, self.found, self.name = graph, group, found, name
        fp32 = found.output.dtype == "float32" and precision in FP32
        self.round_tf32 = fp32 and precision in TF32 and (target is None or target.vendor == "nvidia")
        self.ieee = fp32 and not self.round_tf32
        self.tma = group.variant == "tma" and not self.ieee
        self.target = target
        self.rank4 = found.output.rank == 4
        self.scale_parameter, self.sizes = "", []  # type: tuple[str, list[tuple[float, ...]]]

    def code(self) -> KernelCode:
        """Write source, arguments and knobs."""
        found = self.found
        wrapper = self._wrapper()
        config, space = self._tuning().prefixed(self.name)
        helpers = {"round_to_tf32"} if self.round_tf32 else set()
        if self.tma:
            helpers |= {"tensor_descriptor", "pack_rows", "round_to_tf32", "tma_ready"}
            helpers |= {"tf32_descriptor"} if self.round_tf32 else set()
        return KernelCode(
            function=self.name,
            source="\n\n".join((self._attend(), self._kernel(), wrapper)),
            tensors=(found.q, found.k, found.v, *([found.mask] if found.mask else [])),
            returns=self.group.outputs,
            sizes=tuple(self.sizes),
            config=config,
            space=space,
            helpers=tuple(sorted(helpers)),
            summary=f"{'causal ' if found.causal else ''}attention in one pass, online softmax",
        )

    def _attend(self) -> str:
        masked = self.found.mask is not None
        return kernels.ATTEND.format(
            name=self.name,
            keys="k_desc" if self.tma else "k_ptrs",
            values="v_desc" if self.tma else "v_ptrs",
            mask_ptrs="mask_ptrs, " if masked else "",
            dims="batch, kv_head, " if self.tma else "in_d, in_dv, ",
            strides=("" if self.tma else "stride_kt, stride_vt, ") + ("stride_mk, " if masked else ""),
            blocks=" BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr," if self.tma else "",
            limit="T_K or the diagonal" if self.found.causal else "T_K",
            load_k=kernels.TMA_K if self.tma else kernels.POINTER_K,
            load_v=self._load_v(),
            k_rounded=self._rounded("k", packed=self.tma) + ".T",
            v_rounded=self._rounded("v", packed=self.tma),
            p_rounded="round_to_tf32(p)" if self.round_tf32 else "p.to(v.dtype)",
            precision=self._precision(),
            mask=kernels.MASKS[self.found.mask_kind].format(fill=self._fill()),
            causal=" & (keys[None, :] <= rows[:, None])" if self.found.causal else "",
            base=kernels.BASE if masked else "",
            base_name="base" if masked else "new_max",
        )

    def _kernel(self) -> str:
        found, masked = self.found, self.found.mask is not None
        load_q = "tl.load(q_ptrs, mask=(rows < T_Q)[:, None] & (d < D)[None, :], other=0.0)"
        heads = kernels.TMA_HEADS if self.tma else kernels.POINTER_HEADS
        attend = ["k_desc, v_desc"] if self.tma else ["k_ptrs, v_ptrs"]
        kv_strides = "" if self.tma else (
            "\n    stride_kb, stride_kh, stride_kt, stride_kd, stride_vb, stride_vh, stride_vt, stride_vd,"
        )  # fmt: skip
        return kernels.KERNEL.format(
            name=self.name,
            key_arg="k_desc" if self.tma else "k_ptr",
            value_arg="v_desc" if self.tma else "v_ptr",
            mask_arg="mask_ptr, " if masked else "",
            kv_strides=kv_strides + ("\n    stride_mb, stride_mh, stride_mt, stride_mk," if masked else ""),
            mask_words=", masked" if masked else ", causal" if found.causal else "",
            tile="tiles - 1 - tl.program_id(0) % tiles  # the longest first"
            if found.causal
            else "tl.program_id(0) % tiles",
            q_rounded=f"round_to_tf32({load_q})" if self.round_tf32 else load_q,
            heads=heads + ("\n" + kernels.MASK_POINTERS.rstrip("\n") if masked else ""),
            bounds=kernels.CAUSAL_BOUNDS if found.causal else kernels.FULL_BOUNDS,
            attend_args=", ".join([*attend, *(["mask_ptrs"] if masked else [])]),
            dims="batch, kv_head, " if self.tma else "in_d, in_dv, ",
            attend_strides=("" if self.tma else "stride_kt, stride_vt, ") + ("stride_mk, " if masked else ""),
            attend_blocks=" BLOCK_D, BLOCK_V," if self.tma else "",
            normalize="    out = acc / tl.where(row_sum == 0.0, 1.0, row_sum)[:, None]  # zeros where no key counts"
            if masked and found.empty_rows_are_zero
            else "    out = acc / row_sum[:, None]",
        )

    def _load_v(self) -> str:
        if not self.tma:
            return kernels.POINTER_V
        return kernels.TMA_V_TRANSPOSED if self.round_tf32 else kernels.TMA_V

    def _rounded(self, text: str, packed: bool) -> str:
        """Round an operand, unless a pass of its own has packed and rounded it."""
        return f"round_to_tf32({text})" if self.round_tf32 and not packed else text

    def _precision(self) -> str:
        if self.ieee:
            return ', input_precision="ieee"'
        return ', input_precision="tf32"' if self.round_tf32 else ""

    def _fill(self) -> str:
        fill = self.found.fill
        value = float(str(fill["float"])) if isinstance(fill, dict) and "float" in fill else fill
        return literal(float(value) * LOG2E) if isinstance(value, int | float) else "0.0"

    def _wrapper(self) -> str:
        found, masked = self.found, self.found.mask is not None
        scale = self._scale()
        parameters = [
            "q",
            "k",
            "v",
            *(["mask"] if masked else []),
            *([self.scale_parameter] if self.scale_parameter else []),
        ]
        lead = "B, H, " if self.rank4 else "B, "
        return kernels.WRAPPER.format(
            name=self.name,
            arguments=", ".join(parameters),
            formula="scale q k^T" + (", masked" if masked else ", causal" if found.causal else ""),
            lead=lead,
            prepare=self._prepare(),
            mask=self._expanded_mask(),
            allocation=self._allocation(),
            operands=self._operands(),
            scale=scale,
            kv_args="k_desc, v_desc" if self.tma else "k, v",
            mask_arg="mask, " if masked else "",
            stride_args=("" if self.tma else " *k.stride(), *v.stride(),") + (" *mask.stride()," if masked else ""),
            result="out" if self.rank4 else "out.squeeze(1)",
        )

    def _prepare(self) -> str:
        """Write the lines that make the operands [B, H, T, D]."""
        lines = ["k = k.transpose(-2, -1)"] if self.found.keys_transposed else []
        if not self.rank4:
            lines.append("q, k, v = q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)")
        return "".join(f"    {line}\n" for line in lines)

    def _allocation(self) -> str:
        same_head = self.graph[self.found.q].size(-1) == self.graph[self.found.v].size(-1)
        return "torch.empty_like(q)" if same_head else "torch.empty((B, H, T_Q, D_V), device=q.device, dtype=q.dtype)"

    def _expanded_mask(self) -> str:
        if self.found.mask is None:
            return ""
        rank = self.graph[self.found.mask].rank
        unsqueezed = ".unsqueeze(1)" if not self.rank4 and rank == 3 else ""
        return f"    mask = mask{unsqueezed}.expand(B, H, T_Q, T_K)\n"

    def _operands(self) -> str:
        """Write the lines that make the descriptors of keys and values."""
        if not self.tma:
            return ""
        k_ready, v_block, k_descriptor = "tma_ready(k)", "block_n, block_v", "TensorDescriptor.from_tensor"
        v_line = "v = v if tma_ready(v) else pack_rows(v, False)"
        if self.round_tf32:  # v is summed over tokens: only its transpose has them contiguous
            k_ready, v_block, k_descriptor = "TMA_ROUNDS and tma_ready(k)", "block_v, block_n", "tf32_descriptor"
            v_line = "v = pack_rows(v.transpose(2, 3), True)"
        lines = [
            f"k = k if {k_ready} else pack_rows(k, {self.round_tf32})",
            v_line,
            f"k_desc = {k_descriptor}(k, [1, 1, block_n, block_d])",
            f"v_desc = TensorDescriptor.from_tensor(v, [1, 1, {v_block}])",
        ]
        return "".join(f"    {line}\n" for line in lines)

    def _scale(self) -> str:
        """Return the scale as the wrapper's text. A scale that differs between captures becomes the last parameter."""
        scale: JsonValue = self.found.scale
        if scale is None:
            return "D**-0.5"
        if isinstance(scale, dict):
            values = scale.get("sizes", scale.get("floats"))
            assert isinstance(values, list), json.dumps(scale)
            self.scale_parameter = "scale_by"
            self.sizes.append(tuple(float(v) for v in values))  # type: ignore[arg-type]
            return "1.0 / scale_by" if self.found.divide else "scale_by"
        assert isinstance(scale, int | float)
        return f"1.0 / {scale!r}" if self.found.divide else repr(float(scale))

    def _tuning(self) -> Tuning:
        found = self.found
        head = max(self.graph[found.q].shape[-1], self.graph[found.v].shape[-1])
        queries, keys = self.graph[found.q].shape[-2], self.graph[found.v].shape[-2]
        wide = 2 if self.round_tf32 or self.ieee else 1  # fp32 takes twice the registers and shared memory
        block_m = 128 if head * wide <= 256 else 64
        block_n = 128 if head * wide <= 64 else 64 if head * wide <= 256 else 32
        if self.ieee:
            block_m, block_n = (64, 32) if head <= 128 else (32, 32)
        block_m, block_n = power_of_two(queries, 16, block_m), power_of_two(keys, 16, block_n)
        warps = 8 if block_m >= 128 or (self.ieee and block_m >= 64) else 4
        stages = 2 if head * wide > 128 else 3
        while stages > 1 and not self._fits(block_m, block_n, stages):
            stages -= 1
        while block_n > 16 and not self._fits(block_m, block_n, stages):
            block_n //= 2
        wider = tuple(v for v in (block_n // 2, block_n, block_n * 2) if 16 <= v <= 128)
        return Tuning(
            {"BLOCK_M": block_m, "BLOCK_N": block_n, "num_warps": warps, "num_stages": stages},
            {
                "parallel_mapping": {"num_warps": (4, 8)},
                "tensor_tiling": {
                    "BLOCK_M": tuple(v for v in (block_m // 2, block_m) if v >= 16),
                    "BLOCK_N": tuple(v for v in wider if self._fits(block_m, v, stages)) or (block_n,),
                },
                "memory_optimization": {
                    "num_stages": tuple(s for s in (1, 2, 3, 4) if s == 1 or self._fits(block_m, block_n, s))
                },
            },
        )

    def _fits(self, block_m: int, block_n: int, stages: int) -> bool:
        """Whether a tile of queries, and the keys and values of all stages, fit in the target's shared memory.

        With descriptors all of them lie there; pointers take less.
        """
        if not self.tma or self.target is None:
            return True
        found = self.found
        head, value = (power_of_two(self.graph[x].shape[-1], 16, 1 << 20) for x in (found.q, found.v))
        itemsize = 4 if found.output.dtype == "float32" and self.round_tf32 else 2
        nbytes = itemsize * (block_m * head + stages * block_n * (head + value))
        return nbytes + BARRIERS <= self.target.figure("shared_memory_per_block")
