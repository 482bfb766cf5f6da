"""The arrays and texts of the trees while they grow.

Axes: B prompts, N node slots, M contexts of a call of the sampler, G branches, T
response tokens.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from rlvr_jax import sampling, tree
from rlvr_jax.envs import Verdict
from rlvr_jax.rollout.records import Limits, Rollout
from rlvr_jax.tasks import Task, Tokenizer


@dataclasses.dataclass(frozen=True)
class Node:
    """A node of a tree, and where its response stands in the samples of its turn."""

    prompt: int
    slot: int
    context: int = 0
    branch: int = 0


class Growth:
    """The arrays and texts of the trees while they grow."""

    def __init__(
        self,
        tasks: Sequence[Task],
        tokenizer: Tokenizer,
        limits: Limits,
        first_prompt: int,
    ) -> None:
        self._tasks, self._tokenizer = tasks, tokenizer
        self._limits, self._first_prompt = limits, first_prompt
        self._tree = tree.empty_tree(
            limits.layout,
            num_prompts=len(tasks),
            prompt_length=limits.prompt_tokens,
            response_length=limits.response_tokens,
            feedback_length=limits.feedback_tokens,
        )
        self._entropies = np.zeros(self._tree.node_mask.shape, np.float32)
        self._texts: list[dict[int, str]] = [{} for _ in tasks]
        self._feedback: list[dict[int, str]] = [{} for _ in tasks]
        self._verdicts: list[dict[int, Verdict]] = [{} for _ in tasks]
        self._expanded: list[tuple[int, int]] = []

    def prompt_ids(self) -> list[list[int]]:
        """Ids of the B prompts, written into the tree."""
        prompts = [self._tokenizer.prompt_ids(task.prompt) for task in self._tasks]
        for row, (task, ids) in enumerate(zip(self._tasks, prompts, strict=True)):
            if len(ids) > self._limits.prompt_tokens:
                raise ValueError(
                    f"task {task.id}: the prompt has {len(ids)} tokens but"
                    f" tasks.max_prompt_tokens is {self._limits.prompt_tokens}: raise"
                    " it or set tasks.too_long to 'skip'"
                )
            self._tree.prompt_tokens[row, : len(ids)] = ids
            self._tree.prompt_lengths[row] = len(ids)
        return prompts

    def context_id(self, node: Node) -> int:
        """Names the context below `node`: global prompt and slot, never its text."""
        prompt = self._first_prompt + node.prompt
        return prompt * (self._limits.layout.num_nodes + 1) + node.slot + 1

    def allowance(self, node: Node) -> int:
        """New tokens that a child of `node` may have; below 1: it gets no child."""
        if not self._limits.budget:
            return self._limits.response_tokens
        spent, slot = 0, node.slot
        while slot != tree.NO_PARENT:
            spent += int(self._tree.response_lengths[node.prompt, slot])
            slot = int(self._limits.layout.parents[slot])
        return min(self._limits.response_tokens, self._limits.budget - spent)

    def add(self, samples: sampling.Samples, parents: Sequence[Node]) -> list[Node]:
        """Writes the responses to the contexts below `parents` into their slots."""
        nodes, arrays = [], self._tree
        for context, parent in enumerate(parents):
            if parent.slot == tree.NO_PARENT:
                slots = range(self._limits.layout.branching[0])
            else:
                slots = self._limits.layout.children(parent.slot)
            for branch, slot in enumerate(slots):
                place = (parent.prompt, slot)
                length = int(samples.lengths[context, branch])
                ids = samples.tokens[context, branch, :length]
                arrays.context_mask[place] = True
                arrays.response_tokens[place][:length] = ids
                arrays.response_lengths[place] = length
                arrays.behavior_log_probs[place][:length] = samples.log_probs[
                    context, branch, :length
                ]
                arrays.truncated[place] = samples.truncated[context, branch]
                self._entropies[place] = samples.entropies[context, branch].sum()
                self._texts[parent.prompt][slot] = self._tokenizer.decode(ids)
                nodes.append(Node(*place, context, branch))
        return nodes

    def pairs(self, nodes: Sequence[Node]) -> list[tuple[Task, str]]:
        """What the verifier is asked about `nodes`."""
        return [
            (self._tasks[node.prompt], self._texts[node.prompt][node.slot])
            for node in nodes
        ]

    def grade(self, nodes: Sequence[Node], verdicts: Sequence[Verdict]) -> None:
        """Writes rewards, in the order of `nodes`; an unknown one drops the node."""
        for node, verdict in zip(nodes, verdicts, strict=True):
            self._verdicts[node.prompt][node.slot] = verdict
            if verdict.reward is None:
                continue
            place = (node.prompt, node.slot)
            if not np.isfinite(verdict.reward):
                raise ValueError(
                    f"task {self._tasks[node.prompt].id}: the verifier gave the reward"
                    f" {verdict.reward}; wanted a finite number, or None to abstain"
                )
            self._tree.node_mask[place] = True
            self._tree.rewards[place] = verdict.reward
            self._tree.solved[place] = verdict.solved

    def expandable(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes that get children in the next turn, in the order of `nodes`."""
        chosen = []
        for node in nodes:
            verdict = self._verdicts[node.prompt][node.slot]
            wanted = {
                "unsolved": not verdict.solved,
                "visible_failed": not verdict.visible_passed,
                "all": True,
            }[self._limits.expand]
            last = len(self._limits.layout.children(node.slot)) == 0
            graded = verdict.reward is not None
            if wanted and graded and not last and self.allowance(node) >= 1:
                chosen.append(node)
                self._expanded.append((node.prompt, node.slot))
        return chosen

    def appendix(self, node: Node) -> list[int]:
        """Ids between `node` and its children, written into the tree."""
        place = (node.prompt, node.slot)
        text = self._limits.feedback or self._verdicts[node.prompt][node.slot].feedback
        ids, text = self._fitting(text, closed=not self._tree.truncated[place])
        self._feedback[node.prompt][node.slot] = text
        self._tree.feedback_tokens[place][: len(ids)] = ids
        self._tree.feedback_lengths[place] = len(ids)
        return ids

    def _fitting(self, text: str, *, closed: bool) -> tuple[list[int], str]:
        """(ids of the chat turn, its text): the text is cut, never the turn."""
        room = self._limits.feedback_tokens
        while True:
            ids = self._tokenizer.appendix_ids(text, closed=closed)
            if len(ids) <= room:
                return ids, text
            if not text:
                raise ValueError(
                    f"rollout.max_feedback_tokens must hold the chat template's glue,"
                    f" {len(ids)} tokens; got {room}"
                )
            excess = max(1, (len(ids) - room) // 2)
            text = text[: max(0, len(text) - excess)]

    def drop_lost_parents(self) -> None:
        """Drops expanded nodes none of whose children could be graded."""
        mask = self._tree.node_mask
        for prompt, slot in reversed(self._expanded):
            children = list(self._limits.layout.children(slot))
            mask[prompt, slot] &= mask[prompt, children].any()

    def result(self, seconds: dict[str, float]) -> Rollout:
        """Everything, once the trees are grown."""
        return Rollout(
            tree=self._tree,
            tasks=self._tasks,
            texts=self._texts,
            feedback=self._feedback,
            verdicts=self._verdicts,
            entropies=self._entropies,
            seconds=seconds,
        )
