"""Files and folders, without knowing what is in them; the bottom of the house.

typed      JSON and configurations as dataclasses, checked: `read`, `write`, `typed`, `checked`
folder     a folder that a command owns: lock, identity, nothing foreign: `own`
whole      files and folders that are whole or not there: `atomic`, `whole_folder`, `write_json`
contents   whether files are still what was written: `check_sizes`, `check_checksums`, `check_indexed`
lock       one process at a time: `lock`
"""

from tupe.files.contents import check_checksums, check_indexed, check_sizes, checksums, sizes
from tupe.files.folder import LOCK, difference, identity, own
from tupe.files.lock import lock
from tupe.files.typed import check_file, checked, read, read_json, read_text, typed, write
from tupe.files.whole import atomic, remove_unfinished, sha256, whole_folder, write_json

__all__ = [
    "LOCK",
    "atomic",
    "check_checksums",
    "check_file",
    "check_indexed",
    "check_sizes",
    "checked",
    "checksums",
    "difference",
    "identity",
    "lock",
    "own",
    "read",
    "read_json",
    "read_text",
    "remove_unfinished",
    "sha256",
    "sizes",
    "typed",
    "whole_folder",
    "write",
    "write_json",
]
