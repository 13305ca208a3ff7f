"""The reference as the judge keeps it: cases, families of inputs, budgets, nulls, and the comparison."""
