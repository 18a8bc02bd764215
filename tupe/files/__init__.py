"""Files and folders, without knowing what is in them; the bottom of the house.

typed      JSON and configurations as dataclasses, checked: `read`, `write`, `typed`, `checked`
folder     a folder that a command owns: lock, identity, nothing foreign: `own`, `check_owner`, `move_into`
whole      files and folders that are whole or not there: `atomic`, `whole_folder`, `write_json`; `check_new`
contents   whether files are still what was written: `check_contents`
lock       one process at a time: `lock`
"""

from tupe.files.contents import check_checksums, check_contents, check_indexed, check_sizes, checksums, sizes
from tupe.files.folder import LOCK, check_owner, difference, identity, move_into, own
from tupe.files.lock import lock
from tupe.files.typed import check_file, checked, read, read_json, read_text, typed, write
from tupe.files.whole import atomic, check_new, remove_unfinished, sha256, whole_folder, write_json

__all__ = [
    "LOCK",
    "atomic",
    "check_checksums",
    "check_contents",
    "check_file",
    "check_indexed",
    "check_new",
    "check_owner",
    "check_sizes",
    "checked",
    "checksums",
    "difference",
    "identity",
    "lock",
    "move_into",
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
