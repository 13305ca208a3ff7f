"""Problems of our own that no playbook of the embedded expert matches, for runs of models."""
