"""Files and folders: whole or not there, locked while one process writes them; nothing here knows what is in them."""

from tupe.files.lock import lock
from tupe.files.whole import atomic, remove_unfinished, sha256, whole_folder, write_json

__all__ = ["atomic", "lock", "remove_unfinished", "sha256", "whole_folder", "write_json"]
