"""References in KernelBench's form: layers of real language models at real sizes, for `egg-graph bench workloads`."""
