"""The judge's process: it holds reference, expected answers, seeds and the verdict, and never imports a candidate."""
