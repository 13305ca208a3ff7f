"""What crosses the boundary between judge and candidate: values, launches, faults, and the poison in fresh memory."""
