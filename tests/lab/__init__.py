"""The laboratory: measures the evaluator itself on this repository's own corpora. Run as `python -m tests.lab`.

It is not part of the wheel. `egg-graph trust` holds the measurements that a user takes on files of his own.
"""
