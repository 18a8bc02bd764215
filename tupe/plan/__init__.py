"""The plan of a training before it begins: what it will do, need and cost, and what cannot work."""
