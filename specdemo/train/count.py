"""Counts what follows what in the target's own text: the tables of `ngram:static` and, of code alone, `ngram:code`.

    python -m specdemo.train.count DATA FOLDER [--category code]

DATA is what collect and annotate filled. 1.2 million tokens take 20 s on one core and 1 GB of memory.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tqdm import tqdm

from specdemo.drafters.ngram_table import FILE_NAME, MAX_N, NgramTable
from specdemo.train.corpus import read_shard, shards
from specdemo.train.openings import CATEGORIES

_LEAST_COUNT = 2
_SMOKE_SHARDS = 1


def count(texts: Iterable[Sequence[int]]) -> NgramTable:
    """The winners of all n-grams of the texts that were seen twice, and of all single tokens."""
    counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for ids in texts:
        for end in range(1, len(ids)):
            for n in range(1, min(MAX_N, end) + 1):
                counts[tuple(ids[end - n : end])][ids[end]] += 1
    winners: dict[tuple[int, ...], int] = {}
    # Shorter ones first: a longer one that says the same as its own end does is not kept.
    for ngram in sorted(counts, key=len):
        token_id, num_seen = counts[ngram].most_common(1)[0]
        if len(ngram) == 1 or (num_seen >= _LEAST_COUNT and _after(ngram[1:], winners) != token_id):
            winners[ngram] = token_id
    return NgramTable.from_winners(winners)


def _after(ngram: tuple[int, ...], winners: dict[tuple[int, ...], int]) -> int | None:
    while ngram and ngram not in winners:
        ngram = ngram[1:]
    return winners.get(ngram)


def main(arguments: list[str] | None = None) -> None:
    """Count a folder's text, without the constant system turn that every conversation begins with."""
    options = _parser().parse_args(arguments)
    paths = shards(options.data)[: _SMOKE_SHARDS if options.smoke else None]
    conversations = [c for path in tqdm(paths, unit="shard") for c in read_shard(path, with_hidden=False)]
    texts = [c.ids.tolist() for c in conversations if options.category in (None, CATEGORIES[c.category])]
    start = _num_shared(texts)
    count(ids[start:] for ids in texts).save(options.folder / FILE_NAME)


def _num_shared(texts: Sequence[Sequence[int]]) -> int:
    """How many tokens all texts begin with."""
    first, last = min(texts), max(texts)
    return next((i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m specdemo.train.count", description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder that collect or annotate filled")
    parser.add_argument("folder", type=Path, help="where the table goes")
    parser.add_argument("--category", choices=CATEGORIES, help="only the conversations of one; all by default")
    parser.add_argument("--smoke", action="store_true", help="only the first shard")
    return parser


if __name__ == "__main__":
    main()
