"""The ladder on a GPU: the judge's side, and the worker that holds the candidate."""
