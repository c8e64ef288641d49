"""For a process from which others are forked: these then need not do without oneDNN on ARM (`ops.threads`)."""

import torch

torch.set_num_threads(1)
