"""One file for each way to turn a group of operators into Triton."""
