"""Reading, writing and locking of files and folders, whatever is in them.

typed         JSON and configurations as dataclasses, checked: `read`, `write`, `typed`, `checked`
folder        a folder that a command owns: lock, identity, nothing foreign: `own`, `Owner`, `move_into`
atomic_files  files and folders that are whole or absent: `atomic`, `whole_folder`, `check_new`, `check_replaceable`
space         one sentence for a full disk: `is_full`, `no_room`
integrity     whether files are still what was written: `check_sizes`, `check_checksums`
lock          one process at a time: `lock`
"""

from tupe.files.atomic_files import (
    atomic,
    check_new,
    check_replaceable,
    remove_abandoned,
    remove_unfinished,
    sha256,
    whole_folder,
    write_bytes,
    write_json,
)
from tupe.files.folder import LOCK, Owner, difference, identity, move_into, own
from tupe.files.integrity import check_checksums, check_sizes, checksums, sizes
from tupe.files.lock import lock
from tupe.files.space import is_full, no_room
from tupe.files.typed import check_file, checked, read, read_json, read_text, typed, write
