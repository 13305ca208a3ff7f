"""Write the kernel and the wrapper of one recurrence."""

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.playbooks.knobs import half_and_double, multiprocessors
from egg_graph.expert.playbooks.recurrence.kernels import BIAS, DIRECTIONS, KERNEL, LAYERS, PROJECT, STEPS, WRAPPER
from egg_graph.expert.playbooks.recurrence.match import Recurrence, results_of
from egg_graph.schema import ConfigSpace, Hardware, Knob, Precision

ROWS = 32
"""Rows of the weights that a program of 4 warps keeps: at a state of 256, 64 numbers in each thread's registers."""
RESIDENT = 2
"""Programs of 4 warps and 255 registers a thread that one multiprocessor holds."""


class RecurrenceWriter:
    """Writes one recurrence."""

    def __init__(
        self, graph: CapturedGraph, group: Group, found: Recurrence, name: str, precision: Precision,
        target: Hardware | None,
    ) -> None:  # fmt: skip
        self.graph, self.group, self.found, self.name, self.target = graph, group, found, name, target
        self.options = _options(graph[found.x].dtype, precision)
        self.states = ("hidden", "cells")[: len(found.states)]
        self.slots = 1 if found.gates == 1 else 4
        """Rows of a product for each number of the state. A GRU's new state needs its two products apart."""

    def code(self) -> KernelCode:
        """Return what the playbook hands over."""
        found = self.found
        config, space = self._tuning().prefixed(self.name)
        helpers = {"propagate_max"} if found.cell == "rnn_relu" else {"tanh"}
        return KernelCode(
            function=self.name,
            source="\n\n".join([self._project(), self._kernel(), self._wrapper()]),
            tensors=(found.x, *found.states, *found.weights),
            returns=self.group.outputs,
            config=config,
            space=space,
            helpers=tuple(sorted(helpers)),
            summary=self._summary(),
        )

    def _summary(self) -> str:
        kind = "of both directions of a layer" if self.found.bidirectional else "of layers side by side"
        return f"{self.found.cell} of {self.found.layers} layers, all steps {kind} in one cooperative launch"

    def _project(self) -> str:
        return PROJECT.format(name=self.name, options=self.options)

    def _kernel(self) -> str:
        is_gru = self.found.cell == "gru"
        bias = {
            "GATES": self.found.gates,
            "of_input_row": " & (slot != 3)" if is_gru else "",
            "of_state_row": " & (slot != 2)" if is_gru else "",
        }
        return KERNEL.format(
            name=self.name,
            SLOTS=self.slots,
            GATES=self.found.gates,
            gate="tl.minimum(slot, 2)" if is_gru else "slot",
            of_input=" & (slot != 3)[None, :]" if is_gru else "",
            of_state=" & (slot != 2)[None, :]" if is_gru else "",
            bias_pointers="input_bias_ptr, state_bias_ptr, " if self.found.has_biases else "",
            first_pointers=", ".join(f"{state}_ptr" for state in self.states),
            last_pointers=", ".join(f"last_{state}_ptr" for state in self.states),
            bias=BIAS.format(**bias) if self.found.has_biases else "    # no biases",
            plus_bias=" + bias" if self.found.has_biases else "",
            load_own=self._load_own(),
            options=self.options,
            step=STEPS[self.found.cell],
            store_last=self._store_last(),
        )

    def _load_own(self) -> str:
        load = "    {} = tl.load({}_ptr + start + unit_here[None, :], mask=here, other=0.0).to(tl.float32)"
        lines = [load.format("own", "hidden")]
        if "cells" in self.states:
            lines.append(load.format("cell", "cells"))
        return "\n".join(lines)

    def _store_last(self) -> str:
        values = {"hidden": "own", "cells": "cell"}
        store = "    tl.store(last_{0}_ptr + last, {1}.to(last_{0}_ptr.dtype.element_ty), mask=here)"
        return "\n".join(store.format(state, values[state]) for state in self.states)

    def _wrapper(self) -> str:
        found, name = self.found, self.name
        states = list(self.states)
        biases = ["input_bias", "state_bias"] if found.has_biases else []
        body = (DIRECTIONS if found.bidirectional else LAYERS).format(
            name=name,
            per_layer=4 if found.has_biases else 2,
            stack_biases=self._stacked("weights", "    "),
            stack_own_biases=self._stacked("own", "        "),
            empty_last="\n".join(f"    last_{state} = torch.empty_like({state})" for state in states),
            strides_of_first=" if bottom else gates.stride()[1::-1]" if found.batch_first else "",
            strides_of_first_layer=" if layer else gates.stride()[1::-1]" if found.batch_first else "",
            biases="".join(f", {bias}" for bias in biases),
            biases_from="".join(f", {bias}[bottom:]" for bias in biases),
            states_from=", ".join(f"{state}[bottom:]" for state in states),
            states_of_both=", ".join(f"{state}[both]" for state in states),
            last_from=", ".join(f"last_{state}[bottom:]" for state in states),
            last_of_both=", ".join(f"last_{state}[both]" for state in states),
            results=self._results(),
        )
        return WRAPPER.format(
            name=name,
            states=", ".join(states),
            doc=f"{self._summary()[0].upper()}{self._summary()[1:]}.",
            sizes="B, T" if found.batch_first else "T, B",
            contiguous="\n".join(f"    {state} = {state}.contiguous()" for state in states),
            body=body,
        )

    def _stacked(self, weights: str, indent: str) -> str:
        if not self.found.has_biases:
            return ""
        pairs = (("input_bias", 2), ("state_bias", 3))
        return "".join(f"{indent}{bias} = torch.stack({weights}[{place}::4])\n" for bias, place in pairs)

    def _results(self) -> str:
        output = "out" if self.found.bidirectional else "out[-1]"
        if self.found.batch_first:
            output += ".transpose(0, 1)"
        texts = [output, *(f"last_{state}" for state in self.states)]
        place = results_of(self.graph, self.found)
        return ", ".join(texts[place[result]] for result in self.group.outputs)

    def _tuning(self) -> Tuning:
        units = ROWS // self.slots
        config: dict[str, Knob] = {"UNITS": units, "num_warps": 4}
        space: ConfigSpace = {"tensor_tiling": {"UNITS": half_and_double(units, 16 // self.slots, units)}}
        if self.found.bidirectional:
            return Tuning(config, space)
        # fp32 products on the fp32 pipes leave no registers for a second weight.
        layers = (1,) if "ieee" in self.options else (1, 8)
        config.update(LAYERS=layers[-1], PROGRAMS=RESIDENT * multiprocessors(self.target))
        return Tuning(config, {**space, "parallel_mapping": {"LAYERS": layers}})


def _options(dtype: str, precision: Precision) -> str:
    """Return the options of a product. A rounding to TF32 comes back in every later step: fp32 takes three products.

    PyTorch's library, too, computes small recurrences in fp32 where it may use TF32.
    """
    if dtype != "float32":
        return ""
    return f', input_precision="{"ieee" if precision == "ieee" else "tf32x3"}"'
