"""Memory across problems: what was measured where, kept in a store of LangGraph's, recalled for problems alike."""

from egg_graph.memory.lessons import Kept, LessonStore, gpus_in
from egg_graph.memory.similarity import Topic, bottleneck_of, choose, computing, place_of, structure_of, topic_of

__all__ = [
    "Kept",
    "LessonStore",
    "Topic",
    "bottleneck_of",
    "choose",
    "computing",
    "gpus_in",
    "place_of",
    "structure_of",
    "topic_of",
]
