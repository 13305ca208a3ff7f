"""Confinement of candidates by the operating system: namespaces, Landlock, seccomp, resource limits."""
