"""The shapes that a sampler may compile, declared beforehand."""

import dataclasses


def doubling(first: int, last: int) -> tuple[int, ...]:
    """first, 2 first, 4 first, ... up to the first that reaches `last`."""
    sizes = [first]
    while sizes[-1] < last:
        sizes.append(2 * sizes[-1])
    return tuple(sizes)


@dataclasses.dataclass(frozen=True)
class Buckets:
    """Sizes to which a sampler pads; each list is ascending.

    Attributes:
        contexts: contexts M that are decoded together; more run in waves of the
            largest.
        context_lengths: tokens of a context's key/value cache.
        chunk: tokens that one prefill call reads, and the first size of the cache of
            new tokens; that cache doubles as responses grow.
    """

    contexts: tuple[int, ...] = doubling(1, 1024)
    context_lengths: tuple[int, ...] = doubling(128, 32768)
    chunk: int = 64

    def __post_init__(self) -> None:
        for name in ("contexts", "context_lengths"):
            sizes = getattr(self, name)
            if not sizes or sizes[0] < 1 or list(sizes) != sorted(set(sizes)):
                raise ValueError(
                    f"sampler.{name} must be ascending integers >= 1; got {sizes}"
                )
        if self.chunk < 1:
            raise ValueError(f"sampler.chunk must be >= 1; got {self.chunk}")

    def num_contexts(self, count: int) -> int:
        """The smallest bucket that holds `count` contexts, or the largest bucket."""
        return next(
            (size for size in self.contexts if size >= count), self.contexts[-1]
        )

    def context_length(self, length: int) -> int:
        """The smallest bucket that holds `length` tokens.

        Raises:
            ValueError: no bucket is that long.
        """
        fitting = (size for size in self.context_lengths if size >= length)
        size = next(fitting, None)
        if size is None:
            raise ValueError(
                f"a context of {length} tokens is longer than the largest bucket"
                f" {self.context_lengths[-1]}: raise sampler.context_lengths"
            )
        return size

    def new_lengths(self, max_new_tokens: int) -> tuple[int, ...]:
        """Sizes that the cache of new tokens takes on the way to the limit."""
        return doubling(self.chunk, max_new_tokens)

    def num_slots(self, count: int) -> int:
        """Contexts that the caches of `count` contexts have room for, padding too."""
        whole, rest = divmod(count, self.contexts[-1])
        return whole * self.contexts[-1] + (self.num_contexts(rest) if rest else 0)

    def cache_tokens(
        self, branching: tuple[int, ...], num_prompts: int, max_new_tokens: int
    ) -> int:
        """Tokens of all caches that a rollout holds at once, at the most.

        Args:
            branching: children per context of each turn.
            num_prompts: prompts of the rollout.
            max_new_tokens: limit of a response.

        Returns:
            The largest sum of two neighbouring turns: a turn's caches are read while
            the next turn's are made.
        """
        turns, contexts = [], num_prompts
        for samples in branching:
            tokens = (
                self.context_lengths[-1]
                + samples * self.new_lengths(max_new_tokens)[-1]
            )
            turns.append(self.num_slots(contexts) * tokens)
            contexts *= samples
        return max(map(sum, zip(turns, [0, *turns], strict=False)))
