"""How far can this machine's evaluator be trusted? Corpora with known answers, endurance, spread, cost."""
