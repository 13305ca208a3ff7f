"""Einsums of several operands become products of two that compute the same."""

import pytest
import torch

from egg_graph.expert.capture.decompose.einsum import einsum

SIZES = {"b": 2, "c": 3, "h": 4, "l": 5, "s": 5, "n": 6, "p": 7, "z": 3, "i": 4, "j": 5, "k": 6}


def operands(equation: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    inputs = equation.partition("->")[0].split(",")
    return [torch.randn([SIZES[c] for c in labels], dtype=torch.float64) for labels in inputs]


@pytest.mark.parametrize(
    "equation",
    [
        "ij,jk->ik",
        "ij,jk->ki",
        "bcij,bcjk->bcik",
        "i,ij->j",
        "bclhn,bhcl,bclhp->bchpn",
        "bhcl,bclhn,bclhp->bchpn",
        "bclhn,bcshn,bhcls,bcshp->bclhp",
        "bhzc,bchpn->bzhpn",
        "ij,jk,kl->il",
        "ij,j,jk->ik",
    ],
)
def test_it_computes_the_same(equation: str) -> None:
    given = operands(equation)
    torch.testing.assert_close(einsum(equation, given), torch.einsum(equation, *given))


@pytest.mark.parametrize(
    "equation", ["ij->ji", "ii,ij->j", "ij,jk", "...ij,jk->...ik", "i,j->ij", "ij,kl,lj->j", "i,j,k->ijk"]
)
def test_what_is_no_product_of_two_keeps_its_operator(equation: str) -> None:
    assert einsum(equation, operands(equation.replace("...", ""))) is NotImplemented
