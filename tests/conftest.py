"""Settings that every test shares."""

from __future__ import annotations

import hypothesis
import torch

hypothesis.settings.register_profile("project", max_examples=40, deadline=None, derandomize=True)
hypothesis.settings.load_profile("project")
torch.set_num_threads(2)
