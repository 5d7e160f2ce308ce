"""Benchmarks: speed, memory and bytes, as ratios to a rival in the same run."""
