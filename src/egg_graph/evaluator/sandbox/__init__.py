"""Where a candidate's code runs: forked, confined and watched, and how its end is told."""
