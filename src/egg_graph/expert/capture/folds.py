"""The folds of linear steps, in their order: each leaves a graph that computes the same with less work."""

from egg_graph.expert.capture.average import join_averages
from egg_graph.expert.capture.fold import fold_feature_sums
from egg_graph.expert.capture.fold_average import fold_feature_averages
from egg_graph.expert.capture.fold_convolution import fold_spatial_means
from egg_graph.expert.capture.fold_norm import fold_averaged_norms
from egg_graph.expert.capture.fold_pooling import fold_pooled_convolutions
from egg_graph.expert.capture.graph import CapturedGraph


def fold_linear_steps(graph: CapturedGraph) -> CapturedGraph:
    """Return the graph with sums and averages folded into what they are taken of, and each fold's proof."""
    joined = join_averages(fold_feature_averages(fold_feature_sums(graph)))
    return fold_pooled_convolutions(fold_averaged_norms(fold_spatial_means(joined)))
