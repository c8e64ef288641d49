"""`hanlattice pretrain subwords`: raw text in, a lexicon of BPE pieces out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from hanlattice.cli.pretrain_vectors import PassMeter
from hanlattice.files import shown
from hanlattice.pretrain.kinds import LARGEST_COUNT, LONGEST_PIECE, MOST_PIECES


def subwords(
    files: Annotated[list[Path], typer.Argument(help="Raw text, one paragraph a line: plain, gz or xz.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Writes OUT.txt (the lexicon), OUT.bpe.json and OUT.json.")],
    size: Annotated[
        int, typer.Option(min=1, max=MOST_PIECES, help="At most so many pieces of two characters or more.")
    ] = 20_000,
    longest: Annotated[int, typer.Option(min=2, max=LONGEST_PIECE, help="Characters in a piece, at most.")] = 4,
    min_count: Annotated[int, typer.Option(min=1, max=LARGEST_COUNT, help="How often a merge must come up.")] = 5,
    parallel: Annotated[bool, typer.Option("--parallel", help="Take all cores; the result is the same.")] = False,
) -> None:
    """Make a lexicon of subwords by byte-pair encoding over characters, with the frequency of each."""
    from hanlattice.pretrain.outputs import Outputs
    from hanlattice.pretrain.subwords import SUFFIXES, Settings, train_subwords

    settings = Settings(size, longest, min_count)
    lexicon = shown(Outputs(out, SUFFIXES)[".txt"])
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    with Meter(console, 2) as meter:
        record = train_subwords(tuple(files), out, settings, parallel=parallel, listen=meter)
    memory = f", at most {record['peak_memory'] / 1e6:,.0f} MB" if record["peak_memory"] else ""
    console.print(
        f"{record['pieces']:,} pieces in {lexicon} ({record['unused']:,} merges that no text uses are left out); "
        f"{record['seconds']:,.0f} s{memory}"
    )


class Meter(PassMeter):
    """The second bar is reading and counting what was cut; in its middle, pairs are merged without a word."""

    names = ("characters", "pieces")

    def _on_merging(self, event: dict[str, Any]) -> None:
        self.progress.update(self.tasks[1], description="merging")

    def _on_pass(self, event: dict[str, Any]) -> None:
        super()._on_pass(event)
        if event["number"] == 2:
            self.progress.update(self.tasks[1], description="frequencies")
