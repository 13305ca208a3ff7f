"""Expert principles and hardware specifications: load, match and score them. The data files lie in prompts/."""

from egg_graph.knowledge.hardware import detect_hardware, hardware_keys, load_hardware
from egg_graph.knowledge.matching import match_principles
from egg_graph.knowledge.prices import Price, find_price, load_prices
from egg_graph.knowledge.principles import load_principles
from egg_graph.knowledge.scoring import score_principles
from egg_graph.knowledge.shipped import prompt_files, prompt_text
from egg_graph.knowledge.structure import STRUCTURES, structures_of

__all__ = [
    "STRUCTURES",
    "Price",
    "detect_hardware",
    "find_price",
    "hardware_keys",
    "load_hardware",
    "load_prices",
    "load_principles",
    "match_principles",
    "prompt_files",
    "prompt_text",
    "score_principles",
    "structures_of",
]
