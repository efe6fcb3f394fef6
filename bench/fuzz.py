"""Mutated files of every kind, as many as you like: what is accepted, refused, and what goes wrong.

python bench/fuzz.py --inputs 1000000 --out /tmp/fuzz      the same command goes on where it was stopped
python bench/fuzz.py --inputs 1000 --kind png --kind tiff  some kinds only
python bench/fuzz.py --show png:1234 > mutant.png          one mutant, made again

A worker that dies or hangs costs one mutant. Every failure is kept in OUT/failures with what happened.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fuzz import campaign
from fuzz.kinds import KINDS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=Path("fuzz"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", choices=KINDS, help="may be given several times; default: all")
    parser.add_argument("--show", metavar="KIND:NUMBER", help="print the bytes of one mutant")
    options = parser.parse_args()
    if options.show:
        name, _, number = options.show.partition(":")
        kind = KINDS[name]
        sys.stdout.buffer.write(campaign.make(kind, name, options.seed, int(number), kind.seeds()))
        return
    plan = campaign.Campaign(options.out, options.inputs, options.seed, kinds=tuple(options.kind or KINDS))
    begun = time.monotonic()

    def tell(words: str) -> None:
        print(f"{time.monotonic() - begun:6.0f} s  {words}", file=sys.stderr, flush=True)

    try:
        state = campaign.run(plan, tell)
    except KeyboardInterrupt:
        raise SystemExit(f"stopped; the same command goes on ({options.out})") from None
    print(campaign.format_table(state))
    sys.exit(1 if campaign.failures(state) else 0)


if __name__ == "__main__":
    main()
