"""Token losses and token weights once more: scalars, loops, float64.

Written from the formulas alone. The surrogates take one token (GSPO one response);
`policy_loss` and `token_weights` loop over the responses of a batch.
"""

import math
from collections.abc import Sequence

import numpy as np

LIMIT = 20.0  # log-ratios are clamped to +-LIMIT before exp


def _ratio(difference: float) -> float:
    return math.exp(min(max(difference, -LIMIT), LIMIT))


def reinforce(log_prob: float, old_log_prob: float, advantage: float) -> float:
    """-A logp; the old policy plays no part."""
    return -advantage * log_prob


def clip(
    log_prob: float,
    old_log_prob: float,
    advantage: float,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> float:
    """-min(rho A, clip(rho) A); for A < 0 a dual clip c bounds the loss by c |A|."""
    ratio = _ratio(log_prob - old_log_prob)
    clipped = min(max(ratio, 1.0 - clip_low), 1.0 + clip_high)
    gain = min(ratio * advantage, clipped * advantage)
    if dual_clip is not None and advantage < 0:
        gain = max(gain, dual_clip * advantage)
    return -gain


def cispo(
    log_prob: float, old_log_prob: float, advantage: float, *, clip_high: float
) -> float:
    """-min(rho, 1 + clip_high) A logp; as a value, whatever the gradient is."""
    return -min(_ratio(log_prob - old_log_prob), 1.0 + clip_high) * advantage * log_prob


def gspo(
    log_probs: Sequence[float], old_log_probs: Sequence[float], advantage: float, **more
) -> float:
    """The loss of ONE response: clip of the geometric mean of its ratios."""
    mean = sum(a - b for a, b in zip(log_probs, old_log_probs, strict=True))
    return clip(mean / len(log_probs), 0.0, advantage, **more)


def importance_weight(
    log_probs: Sequence[float], behavior_log_probs: Sequence[float], cap: float
) -> float:
    """Ratio of the probabilities of these tokens together, at most `cap`."""
    pairs = zip(log_probs, behavior_log_probs, strict=True)
    return min(_ratio(sum(a - b for a, b in pairs)), cap)


def overlong_penalty(length: int, max_length: int, buffer: int) -> float:
    """DAPO's three cases, as the paper writes them."""
    expected = max_length - buffer
    if length <= expected:
        return 0.0
    if length <= max_length:
        return (expected - length) / buffer
    return -1.0


def entropy(logits: Sequence[float], temperature: float = 1.0) -> float:
    """-sum p log p in nats."""
    top = max(logits)
    weights = [math.exp((value - top) / temperature) for value in logits]
    shares = [weight / sum(weights) for weight in weights]
    return -sum(share * math.log(share) for share in shares if share > 0)


def k1(log_prob: float, ref_log_prob: float) -> float:
    """logp - ref."""
    return min(max(log_prob - ref_log_prob, -LIMIT), LIMIT)


def k2(log_prob: float, ref_log_prob: float) -> float:
    """(logp - ref)^2 / 2."""
    return k1(log_prob, ref_log_prob) ** 2 / 2.0


def k3(log_prob: float, ref_log_prob: float) -> float:
    """exp(d) - d - 1 with d = ref - logp. The same clamped d stands in both places:
    with the raw d in the second the estimate could be negative."""
    difference = min(max(ref_log_prob - log_prob, -LIMIT), LIMIT)
    return math.exp(difference) - difference - 1.0


def policy_loss(
    fields: dict,
    *,
    surrogate: str = "clip",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    kl: str = "k3",
    kl_coefficient: float = 0.0,
    entropy_coefficient: float = 0.0,
    tis: str = "none",
    tis_cap: float = 2.0,
) -> tuple[float, dict[str, float]]:
    """(loss, sums), response by response; `fields` as those of `TargetTokens`."""
    names = (
        "tokens policy clip_low clip_high gap kl kl_k1 entropy tis_weight tis_capped"
    )
    sums = dict.fromkeys(names.split(), 0.0)
    mask, ids = np.asarray(fields["loss_mask"]), np.asarray(fields["response_id"])
    places: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for r, k in np.argwhere(mask):
        places.setdefault((int(r), int(ids[r, k])), []).append((int(r), int(k)))
    total = 0.0
    for tokens in places.values():
        live, old, behavior, ref, entropies, advantages, weights = (
            [float(fields[name][place]) for place in tokens]
            for name in (
                *("log_probs", "old_log_probs", "behavior_log_probs"),
                *("ref_log_probs", "entropies", "advantages", "weights"),
            )
        )
        joint = sum(a - b for a, b in zip(live, old, strict=True)) / len(tokens)
        for t, weight in enumerate(weights):
            advantage = advantages[t]
            ratio = math.exp(joint if surrogate == "gspo" else live[t] - old[t])
            bounds = {"clip_low": clip_low, "clip_high": clip_high}
            if surrogate == "reinforce":
                loss = reinforce(live[t], old[t], advantage)
            elif surrogate == "cispo":
                loss = cispo(live[t], old[t], advantage, clip_high=clip_high)
            elif surrogate == "gspo":
                loss = gspo(live, old, advantage, **bounds, dual_clip=dual_clip)
            else:
                loss = clip(live[t], old[t], advantage, **bounds, dual_clip=dual_clip)
            trust = 1.0
            if tis != "none":
                part = slice(t, t + 1) if tis == "token" else slice(None)
                trust = importance_weight(old[part], behavior[part], tis_cap)
            divergence = {"k2": k2, "k3": k3}[kl](live[t], ref[t])
            sums["tokens"] += 1
            sums["policy"] += weight * trust * loss
            sums["gap"] += abs(live[t] - behavior[t])
            sums["kl"] += divergence
            sums["kl_k1"] += k1(live[t], ref[t])
            sums["entropy"] += entropies[t]
            sums["tis_weight"] += trust
            sums["tis_capped"] += trust == tis_cap
            two_sided = surrogate in ("clip", "gspo")
            sums["clip_low"] += two_sided and ratio < 1 - clip_low and advantage < 0
            above = ratio > 1 + clip_high
            sums["clip_high"] += above and (
                (two_sided and advantage > 0) or surrogate == "cispo"
            )
            total += weight * (kl_coefficient * divergence)
            total -= weight * entropy_coefficient * entropies[t]
    if tis == "none":
        del sums["tis_weight"], sums["tis_capped"]
    return total + sums["policy"], sums


def token_weights(
    reduction: str,
    response_lengths: Sequence,
    node_mask: Sequence,
    groups: Sequence,
    *,
    max_length: int | None = None,
    total: float | None = None,
) -> np.ndarray:
    """The weight of each token of each response.

    `total` replaces what the batch would divide by (tokens, responses or groups), for
    a batch that is one part of a larger one. Groups live inside one row.
    """
    node_mask = np.asarray(node_mask)
    groups = np.broadcast_to(groups, node_mask.shape)
    present = [(int(b), int(n)) for b, n in np.argwhere(node_mask)]
    lengths = {bn: int(np.asarray(response_lengths)[bn]) for bn in present}
    members: dict = {}
    for b, n in present:
        members.setdefault((b, int(groups[b, n])), []).append((b, n))
    if total is None:
        total = {
            "token": sum(lengths.values()),
            "response": len(present),
            "constant": len(present),
            "group": len(members),
        }[reduction]
    weights = np.zeros(node_mask.shape)
    for b, n in present:
        weights[b, n] = {
            "token": lambda length, size: 1.0,
            "response": lambda length, size: 1.0 / length,
            "constant": lambda length, size: 1.0 / max_length,
            "group": lambda length, size: 1.0 / (size * length),
        }[reduction](lengths[b, n], len(members[b, int(groups[b, n])])) / total
    return weights
