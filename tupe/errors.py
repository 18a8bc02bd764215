"""`UserError`, for what a user can correct: one sentence that says what was wrong, where, and what to do."""

try:  # Hydra prints these without a traceback
    from hydra.errors import CompactHydraException as _Compact
except ImportError:  # `tupe.position` and `tupe.attention` work without Hydra

    class _Compact(Exception):
        pass


class UserError(_Compact, ValueError):
    """Wrong input. The message is one sentence for the user; commands print it without a traceback and exit with 1."""
