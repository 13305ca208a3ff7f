"""Expert principles and hardware specifications: loading, matching, scoring. The data files ship in prompts/."""

from egg_graph.knowledge.hardware import detect_hardware, hardware_keys, load_hardware
from egg_graph.knowledge.matching import match_principles
from egg_graph.knowledge.principles import load_principles
from egg_graph.knowledge.scoring import PrincipleScore, score
from egg_graph.knowledge.shipped import prompt_files, prompt_text

__all__ = [
    "PrincipleScore",
    "detect_hardware",
    "hardware_keys",
    "load_hardware",
    "load_principles",
    "match_principles",
    "prompt_files",
    "prompt_text",
    "score",
]
