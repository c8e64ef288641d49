"""Nothing but the server and `data get` talks to a network: a process in which every socket is an
error.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.made import made_tree, write_toml

ALONE = """
import os, sys

def refuse(event, arguments):
    if event.startswith("socket."):
        os.write(2, f"{event} {arguments}".encode())
        os._exit(9)

sys.addaudithook(refuse)
from hanlattice.cli import main
from hanlattice.predict import load

config, out = sys.argv[1:]
for name in ("ner", "seg"):
    list(load(name).pipe(["南京市长江大桥"]))
for arguments in (
    ["train", config, "--out", out],
    ["pack", out, "--out", f"{out}-packed"],
    ["tag", "-m", f"{out}-packed", "王小明在青石镇工作。"],
    ["segment", "南京市长江大桥"],
    ["explain", "南京市长江大桥"],
    ["info", out],
):
    sys.argv = ["hanlattice", *arguments]
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            raise
print("alone")
"""


def test_no_socket_is_made(made: Path, tmp_path: Path) -> None:
    config = write_toml(tmp_path / "c.toml", made_tree(made, train__epochs=1, model__hidden=4))
    command = [sys.executable, "-c", ALONE, str(config), str(tmp_path / "run")]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.endswith("alone\n")
