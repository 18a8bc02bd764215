"""Checkpoints: safe loading, editing, warm starts, and imports from the authors' release and other libraries."""
