"""Figures and reports of training logs and checkpoints."""
