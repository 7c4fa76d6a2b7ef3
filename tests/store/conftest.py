"""Lets the tests of this folder and of those below import ``store_examples``, which is beside this file."""
