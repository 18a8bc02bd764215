"""Queues of many runs and their tables: a benchmark's fine-tunings, and in `study` a comparison of systems."""
