"""What the model sees: pure functions, state in, text out. No I/O."""
