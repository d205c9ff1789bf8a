"""How well draws fit a law that is known: total variation, chi-square, and how large both may be by chance. Pure.

Shapes: C cells, outcomes that are counted together.
"""

import torch
from torch import Tensor

FEWEST_EXPECTED = 25.0
"""A cell of the chi-square test expects at least so many draws: at the small levels a proof is judged by, the
distribution that the test takes for granted is not there yet with the usual 5."""


def expected_total_variation(probs: Tensor, num_draws: int) -> tuple[float, float]:
    """Mean and standard deviation of the total variation between (C,) `probs` and the shares of so many draws from it.

    The mean is exact, by de Moivre's formula for a binomial's mean deviation. The standard deviation is that of the
    normal approximation: the covariance of the absolute values of two normal numbers that correlate.
    """
    p = probs.double()
    p = p[(p > 0.0) & (p < 1.0)]
    if not len(p):
        return 0.0, 0.0
    mean = float(_mean_deviation(p, num_draws).sum()) / 2.0
    sigma = (p * (1.0 - p) / num_draws).sqrt()
    rho = -(p[:, None] * p / ((1.0 - p[:, None]) * (1.0 - p))).sqrt()
    rho = rho.clamp(-1.0, 1.0).fill_diagonal_(1.0)
    share = 2.0 / torch.pi * ((1.0 - rho**2).clamp_(min=0.0).sqrt() + rho * rho.asin() - 1.0)
    return mean, float((sigma[:, None] * sigma * share).sum().clamp_(min=0.0).sqrt()) / 2.0


def total_variation(probs: Tensor, shares: Tensor) -> float:
    """Half the sum of the absolute differences of two laws (C,)."""
    return float((probs.double() - shares.double()).abs().sum()) / 2.0


def chi_square_p_value(probs: Tensor, counts: Tensor) -> float:
    """The chance that draws from (C,) `probs` fit it as badly as (C,) `counts` or worse; Pearson's chi-square.

    0 when something was drawn that the law never gives. Cells that expect too few draws are taken together.
    """
    p, n = probs.double(), counts.double()
    if float(n[p <= 0.0].sum()) > 0.0:
        return 0.0
    p, n = _taken_together(p[p > 0.0], n[p > 0.0])
    if len(p) < 2:
        return 1.0
    expected = p / p.sum() * n.sum()
    statistic = ((n - expected) ** 2 / expected).sum()
    return float(torch.special.gammaincc(torch.tensor((len(p) - 1) / 2.0, dtype=torch.float64), statistic / 2.0))


def _taken_together(probs: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    order = probs.argsort(descending=True)
    probs, counts = probs[order], counts[order]
    num_kept = int((probs * counts.sum() >= FEWEST_EXPECTED).sum())
    rest = probs[num_kept:].sum()
    if 0.0 < float(rest * counts.sum()) < FEWEST_EXPECTED:
        num_kept = max(num_kept - 1, 0)
    groups = torch.arange(len(probs)).clamp_(max=num_kept)
    size = int(groups.max()) + 1
    zeros = torch.zeros(size, dtype=torch.float64)
    return zeros.index_add(0, groups, probs), zeros.index_add(0, groups, counts)


def _mean_deviation(p: Tensor, n: int) -> Tensor:
    """E|X / n - p| of a binomial X: 2 m (1 - p) P(X = m) / n with m = floor(n p) + 1."""
    m = (n * p).floor() + 1.0
    total = torch.tensor(float(n), dtype=torch.float64)
    log_choose = torch.lgamma(total + 1.0) - torch.lgamma(m + 1.0) - torch.lgamma(total - m + 1.0)
    log_mass = log_choose + m * p.log() + (total - m) * (-p).log1p()
    return 2.0 * m * (1.0 - p) * log_mass.exp() / n
