"""Checkpoints: read without running code, of the authors' release, and to and from where else models are used."""
