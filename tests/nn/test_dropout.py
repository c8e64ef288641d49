"""Dropout: what is drawn, how much of it, and that it does not depend on how memory lies."""

from __future__ import annotations

import pytest
import torch

from hanlattice.nn.dropout import Dropout, drop


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 0.999])
def test_dropout_keeps_the_mean_and_drops_the_share(share: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(37, 5001)
    found = drop(x, share)
    limit = min(255, round(share * 256)) / 256
    assert set(found.unique().tolist()) <= {0.0, torch.tensor(1 / (1 - limit)).item()}
    assert (found == 0).double().mean().item() == pytest.approx(limit, abs=0.005)
    assert found.double().mean().item() == pytest.approx(1, abs=0.1 if share > 0.9 else 0.02)


def test_dropout_is_independent_from_one_element_to_the_next() -> None:
    torch.manual_seed(0)
    kept = (drop(torch.ones(8, 40_000), 0.5) > 0).double()
    together = torch.corrcoef(kept)  # eight rows, and eight neighbours in a row
    extra_embeddings = torch.corrcoef(kept.reshape(-1, 8).T)
    for found in (together, extra_embeddings):
        assert (found - torch.eye(8, dtype=torch.float64)).abs().max().item() < 0.03


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_gaps_in_memory_change_nothing() -> None:
    """They change how many numbers of torch's own dropout come from one draw: four here, or one."""
    wide = torch.ones(3, 8, 8, device="cuda")
    found = []
    for x in (wide[:, :-1], wide[:, :-1].clone()):
        torch.manual_seed(1)
        found.append(Dropout(0.5)(x))
    assert torch.equal(*found)
