"""A folder for checkpoints that cannot be written, of which fairseq says what it tried there, in a traceback."""

from __future__ import annotations

import os

from fairseq import checkpoint_utils

from tupe.errors import UserError
from tupe.fairseq_mends.mend import mends


@mends(checkpoint_utils, "verify_checkpoint_directory", "save_dir")
def folder_of_checkpoints(original):
    """Called by every training, before it reads the data."""

    def verify_checkpoint_directory(save_dir, *args, **kwargs):
        try:
            return original(save_dir, *args, **kwargs)
        except OSError as error:
            raise UserError(
                f"{os.path.abspath(save_dir)} cannot be a folder of checkpoints ({error.strerror}): set --save-dir "
                "(checkpoint.save_dir) to one that can be written"
            ) from error

    return verify_checkpoint_directory
