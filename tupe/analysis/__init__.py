"""Draw and report what a training log and a checkpoint show: curves, pictures of the positions, reports."""
