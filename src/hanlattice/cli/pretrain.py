"""`hanlattice pretrain`: what the models are fed with, made from anybody's raw text."""

from __future__ import annotations

import typer

from hanlattice.cli.pretrain_lm import pretrain_lm
from hanlattice.cli.pretrain_subwords import subwords
from hanlattice.cli.pretrain_vectors import vectors

app = typer.Typer(help="Vectors, subwords and language models from raw text.", no_args_is_help=True)
app.command("vectors")(vectors)
app.command("subwords")(subwords)
app.command("lm")(pretrain_lm)
