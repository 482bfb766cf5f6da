"""How much memory the caches of a rollout may take."""

from rlvr_jax.sampling import Buckets, context_bytes


class Shape:
    num_layers, num_kv_heads, head_dim = 3, 2, 8


def test_bytes_of_a_cache():
    assert context_bytes(Shape, 5, "float32") == 2 * 3 * 2 * 8 * 5 * 4
    assert context_bytes(Shape, 5, "bfloat16") == 2 * 3 * 2 * 8 * 5 * 2


def test_two_neighbouring_turns_live_at_once():
    buckets = Buckets(contexts=(2, 4), context_lengths=(16, 64), chunk=8)
    # 3 contexts take 4 slots of 64 context tokens and 2 x 16 new ones.
    assert buckets.cache_tokens((2,), 3, 10) == 4 * (64 + 2 * 16)
    # Their 6 children: one wave of 4 and one of 2 with 5 x 16 new tokens each.
    first, second = 4 * (64 + 2 * 16), 6 * (64 + 5 * 16)
    assert buckets.cache_tokens((2, 5), 3, 10) == first + second
    # 30 grandchildren need 28 + 2 slots; the first turn is gone by then.
    third = 30 * (64 + 16)
    assert buckets.cache_tokens((2, 5, 1), 3, 10) == second + third
