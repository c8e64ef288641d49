"""How long a test waits for a process."""

from __future__ import annotations

# Seconds: so long that no busy machine makes a test fail
PATIENCE = 1200.0
