"""How it lives: restore, run, step, rules, recovery."""
