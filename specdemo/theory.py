"""What the theory of speculative decoding predicts: tokens per round, speedup, best K.

Pure arithmetic on an acceptance probability and on measured costs; knows no model, no events and no clock.
Source: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2211.17192, section 3.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Cost = Callable[[int], float] | Sequence[float]
"""Cost of n tokens, in units of a one-token target pass: a function of n, or a sequence with the value at index n."""


def expected_tokens_per_round(alpha: float, num_draft_tokens: int) -> float:
    """Tokens that one round emits on average when each judged draft token is accepted with probability `alpha`.

    Raises ValueError for an `alpha` outside 0..1 or a negative K.
    Source: 2211.17192, equation 1, (1 - alpha^(K+1)) / (1 - alpha). Summed as the series 1 + alpha + ... + alpha^K,
    which is the same number, is K + 1 at alpha = 1, and does not cancel near it.
    """
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha is {alpha!r}; it must be a probability from 0 to 1.")
    if num_draft_tokens < 0:
        raise ValueError(f"K is {num_draft_tokens}; it must be 0 or more.")
    return sum(alpha**i for i in range(num_draft_tokens + 1))


def expected_in_race(alpha: float | None, settings: Mapping[str, Any]) -> float | None:
    """The same for a race by its settings and its measured alpha; None without one, or where K adapts."""
    k = settings.get("num_draft_tokens")
    if alpha is None or not isinstance(k, int) or settings.get("schedule") != "constant":
        return None
    return expected_tokens_per_round(alpha, k)


def expected_speedup(alpha: float, num_draft_tokens: int, draft_cost: Cost, verify_cost: Cost) -> float:
    """Decode speed over plain decoding: expected tokens of a round over the cost of its drafts and its verify pass.

    Plain decoding emits one token at cost 1. `draft_cost` is taken at K (0 drafts cost nothing), `verify_cost` at the
    width of the pass, K + 1. Source: 2211.17192, theorem 3.8, where drafts cost K c and a verify pass of any width
    costs 1; here both are measured.
    """
    drafting = cost_of(draft_cost, num_draft_tokens) if num_draft_tokens else 0.0
    verifying = cost_of(verify_cost, num_draft_tokens + 1)
    return expected_tokens_per_round(alpha, num_draft_tokens) / (drafting + verifying)


def best_num_draft_tokens(alpha: float, candidates: Iterable[int], draft_cost: Cost, verify_cost: Cost) -> int:
    """The candidate K with the highest expected speedup, the smallest on a tie.

    Include 0 among the candidates to let "do not speculate" win. Source: 2211.17192, section 3.5.
    """
    return max(sorted(candidates), key=lambda k: expected_speedup(alpha, k, draft_cost, verify_cost))


def cost_of(cost: Cost, num_tokens: int) -> float:
    """`cost` at `num_tokens`, whichever of its two forms it has."""
    return cost(num_tokens) if callable(cost) else cost[num_tokens]
