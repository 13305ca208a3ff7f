"""A task as the judge holds it: reference, shapes, cases, input families, budgets, plan of calls, comparison."""
