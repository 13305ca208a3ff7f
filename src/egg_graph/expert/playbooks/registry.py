"""The playbooks in order of precedence: what fuses most comes first, elementwise chains take the rest."""

from collections.abc import Iterable
from functools import lru_cache

from egg_graph.expert.playbooks.attention.playbook import AttentionPlaybook
from egg_graph.expert.playbooks.channels.join import JoinPlaybook
from egg_graph.expert.playbooks.channels.layout import LayoutPlaybook
from egg_graph.expert.playbooks.channels.planes import PlanesPlaybook
from egg_graph.expert.playbooks.channels.statistics import StatisticsPlaybook
from egg_graph.expert.playbooks.column import ColumnPlaybook
from egg_graph.expert.playbooks.convolution.playbook import ConvolutionPlaybook
from egg_graph.expert.playbooks.full_reduction import FullReductionPlaybook
from egg_graph.expert.playbooks.gemm.packed import PackedPlaybook
from egg_graph.expert.playbooks.gemm.playbook import GemmPlaybook
from egg_graph.expert.playbooks.playbook import Playbook
from egg_graph.expert.playbooks.pointwise import PointwisePlaybook
from egg_graph.expert.playbooks.pooling.playbook import PoolingPlaybook
from egg_graph.expert.playbooks.recurrence.playbook import RecurrencePlaybook
from egg_graph.expert.playbooks.row import RowPlaybook
from egg_graph.expert.playbooks.scan.playbook import ScanPlaybook
from egg_graph.expert.playbooks.scatter import ScatterPlaybook
from egg_graph.schema import BadInput

PLAYBOOKS: tuple[Playbook, ...] = (
    AttentionPlaybook(),
    PackedPlaybook(),
    GemmPlaybook(),
    ConvolutionPlaybook(),
    RecurrencePlaybook(),
    ScanPlaybook(),
    StatisticsPlaybook(),
    JoinPlaybook(),
    LayoutPlaybook(),
    PoolingPlaybook(),
    RowPlaybook(),
    ColumnPlaybook(),
    FullReductionPlaybook(),
    ScatterPlaybook(),
    PlanesPlaybook(),
    PointwisePlaybook(),
)
"""The playbooks that ship. A new one of ours is one more line here."""

_registered = PLAYBOOKS


def playbooks() -> tuple[Playbook, ...]:
    """Return all playbooks of this process, in order of precedence."""
    return _registered


def playbooks_by_name() -> dict[str, Playbook]:
    """Return all playbooks of this process by name, in order of precedence."""
    return {playbook.name: playbook for playbook in _registered}


def add_playbook(playbook: Playbook, before: str = PLAYBOOKS[0].name) -> None:
    """Add a playbook of your own for the rest of this process.

    Args:
        playbook: Its name is an identifier that no other playbook has.
        before: The playbook that gets its turn after the new one; by default the new one comes first of all.

    Raises:
        BadInput: if the name is taken or is no identifier, or `before` names no playbook.
    """
    global _registered
    names = [known.name for known in _registered]
    if not playbook.name.isidentifier() or playbook.name in names:
        raise BadInput(f"playbook {playbook.name!r}: give it a name that is an identifier and none of {names}")
    if before not in names:
        raise BadInput(f"before={before!r}: no such playbook; choose one of {', '.join(names)}")
    place = names.index(before)
    _registered = (*_registered[:place], playbook, *_registered[place:])


def playbook_names(groups: Iterable[str]) -> dict[str, str]:
    """Map each group to its playbook's name, which the group's name begins with (`row`, `pointwise_2`)."""
    known = playbooks_by_name()
    return {g: g if g in known else g.rsplit("_", 1)[0] for g in groups}


def guidance_for(operators: Iterable[str]) -> dict[str, str]:
    """Return the guidance of every playbook that fits these operators, by the playbook's name.

    Args:
        operators: ATen operators of a reference, as in `Baseline.operators` (`aten.linear.default`).
    """
    full = {name.removeprefix("aten.") for name in operators}
    names = frozenset(full | {name.split(".")[0] for name in full})
    return {playbook.name: playbook.guidance for playbook in _about(names, _registered)}


@lru_cache(maxsize=64)
def _about(names: frozenset[str], known: tuple[Playbook, ...]) -> tuple[Playbook, ...]:
    return tuple(playbook for playbook in known if playbook.is_about(names))
