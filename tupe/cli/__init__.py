"""The command `tupe`."""
