"""Benchmarks: each prints a table of what was measured beside what is to be reached."""
