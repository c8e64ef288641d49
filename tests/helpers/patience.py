"""How long a test waits before it says that something hangs: long, so that no busy machine makes it
fail.
"""

from __future__ import annotations

PATIENCE = 1200.0  # seconds
