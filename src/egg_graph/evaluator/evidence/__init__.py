"""From what was observed to an `Evaluation`: findings, status, statements."""
