"""Every setting of a run, declared once, with its unit and its range."""

import dataclasses
import pathlib

from rlvr_jax.credit import CreditConfig
from rlvr_jax.tree import TreeLayout


@dataclasses.dataclass(frozen=True)
class ModelSection:
    """The policy.

    Attributes:
        path: Hugging Face directory; "" is the small model shipped with the package.
        dtype: of activations and caches, `float32` or `bfloat16`; masters are float32.
        remat: recompute each layer in the backward pass.
        unroll: layers per step of the loop over layers; all of a small model at once
            is faster on a CPU, one compiles fastest.
        thinking: `on` or `off`, for chat templates with the switch `enable_thinking`
            (off: Qwen3's responses begin after an empty thought); `template` leaves it
            to the template.
    """

    path: str = ""
    dtype: str = "float32"
    remat: bool = True
    unroll: int = 1
    thinking: str = "template"

    @property
    def thinking_switch(self) -> bool | None:
        """`thinking` as `tasks.load_tokenizer` takes it."""
        return {"template": None, "on": True, "off": False}[self.thinking]


@dataclasses.dataclass(frozen=True)
class LoraSection:
    """Low-rank adapters: matrices W become W + alpha / rank * A B, and only A and B
    are trained.

    Attributes:
        rank: of the adapters; 0 trains all parameters.
        targets: matrices of every layer that have adapters.
        alpha: of the factor alpha / rank. A learning rate of 1e-4 to 1e-3, about ten
            times that of a training of all parameters, is usual.
    """

    rank: int = 0
    targets: tuple[str, ...] = (
        "query",
        "key",
        "value",
        "output",
        "gate",
        "up",
        "down",
    )
    alpha: float = 32.0


@dataclasses.dataclass(frozen=True)
class TasksSection:
    """What is asked.

    Attributes:
        source: `programs` (generated without end), the path of a data set,
            `arithmetic:OPERATION:SPLIT` (`tasks.arithmetic`; SPLIT is train or
            heldout), or `reasoning_gym:NAME,NAME`, a data set of `generated` tasks of
            those generators (an extra).
        format: of that data set: `auto` or a name of `tasks.read_tasks`.
        eval_source: data set of the evaluation; "" evaluates on held-out programs,
            or on `source` itself if that is a data set.
        generated: tasks of a reasoning_gym source; an eval_source has `eval.tasks`.
        difficulty: (low, high): training tasks of `source` whose difficulty, the share
            of attempts that solved them (higher is easier), is outside are left out
            (counted); () keeps all.
        deduplicate: leave out training tasks whose prompt came before (counted).
        self_check: leave out training tasks whose gold answer the math verifier cannot
            read (named in host.json); 15 ms for each that is not a number.
        self_test: leave out training tasks whose reference (in a code block or box)
            the verifier does not accept (likewise); verifies each task once.
        levels: shares of the difficulty levels of generated programs.
        max_prompt_tokens: longest prompt, tokens of the rendered chat turn.
        too_long: `error` or `skip` (counted) for longer prompts.
        verifier_workers: responses graded at once.
        verifier: who grades: "" (by the kind of the tasks) or `function`.
        verifier_functions: of `function`: `module:function` or `file.py:function`, in
            TRL's or verl's signature. Also known as reward_funcs.
        verifier_weights: one per function, 0 for a metric only; () is 1 for each. Also
            known as reward_weights.
        solved_threshold: of `function`: the weighted reward from which on a task is
            solved.
    """

    source: str = "programs"
    format: str = "auto"
    eval_source: str = ""
    generated: int = 10000
    difficulty: tuple[float, ...] = ()
    deduplicate: bool = False
    self_check: bool = True
    self_test: bool = False
    levels: tuple[float, ...] = (2.0, 1.0, 0.0)
    max_prompt_tokens: int = 64
    too_long: str = "error"
    verifier_workers: int = 2
    verifier: str = ""
    verifier_functions: tuple[str, ...] = ()
    verifier_weights: tuple[float, ...] = ()
    solved_threshold: float = 1.0


@dataclasses.dataclass(frozen=True)
class RolloutSection:
    """How trees grow.

    Attributes:
        prompts: prompts per step B.
        branching: children per context, one number per turn; `(16,)` is a group of 16
            without retries. Also known as num_generations, rollout.n, group size.
        expand: who gets children: `unsolved`, `visible_failed` or `all`.
        max_response_tokens: limit of one attempt.
        max_feedback_tokens: limit of what is appended between attempts, glue included.
        budget: response tokens that the attempts of one path share; 0: no such limit.
        feedback: sent to every expanded node; "": what the verifier says.
        temperature: of sampling, > 0; training uses the same.
        overlong: last share of max_response_tokens in which length costs reward, up to
            1 at the limit (soft overlong punishment); 0: none.
    """

    prompts: int = 32
    branching: tuple[int, ...] = (8,)
    expand: str = "unsolved"
    max_response_tokens: int = 32
    max_feedback_tokens: int = 48
    budget: int = 0
    feedback: str = ""
    temperature: float = 1.0
    overlong: float = 0.0

    @property
    def layout(self) -> TreeLayout:
        """Slots of the trees."""
        return TreeLayout(self.branching)


@dataclasses.dataclass(frozen=True)
class SamplerSection:
    """Shapes that the sampler may compile, see `sampling.Buckets`.

    Attributes:
        contexts: contexts decoded together, a wave; each wave is verified while the
            next ones are decoded.
        context_lengths: tokens of their caches; () takes one size, the longest
            history that the limits allow.
        chunk: tokens per prefill call, and first size of the cache of new tokens.
        cache_bytes: refuse to start if the caches of a step could be larger, bytes.
    """

    contexts: tuple[int, ...] = (64,)
    context_lengths: tuple[int, ...] = ()
    chunk: int = 32
    cache_bytes: int = 8 * 2**30


@dataclasses.dataclass(frozen=True)
class ObjectiveSection:
    """The loss of one token and how tokens add up.

    Attributes:
        surrogate: `reinforce`, `clip`, `gspo` or `cispo`.
        clip_low, clip_high: ratio bounds of `clip` and `gspo` (epsilon, epsilon_high);
            `cispo` reads `clip_high` alone.
        dual_clip: bound of the loss of `clip` and `gspo` at negative advantages, above
            1; 0: none.
        kl: `k2` or `k3`, estimate of the divergence to the start policy.
        kl_coefficient: β of that term, >= 0.
        entropy_coefficient: of a bonus on the exact entropy at each target, >= 0.
        reduction: `token`, `response`, `constant` or `group`.
        old_log_probs: where the ratio starts: `live` (ratio 1; one update per
            rollout), `sampler` or `recompute`.
        tis: weights against a sampler that differs from the trainer: `none`, `token`
            or `response`; needs old log-probs of the trainer's own.
        tis_cap: largest such weight.
    """

    surrogate: str = "clip"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float = 0.0
    kl: str = "k3"
    kl_coefficient: float = 0.0
    entropy_coefficient: float = 0.0
    reduction: str = "token"
    old_log_probs: str = "live"
    tis: str = "none"
    tis_cap: float = 2.0


@dataclasses.dataclass(frozen=True)
class UpdateSection:
    """Updates per rollout, and the shape of a micro-batch.

    Attributes:
        epochs: passes over a rollout.
        minibatches: optimizer updates per pass; each gets whole prompts.
        rows: packed rows of a micro-batch.
        row_length: tokens of a row L.
        target_length: targets of a row K.
        head_chunk: targets per row that the output head computes at a time.
    """

    epochs: int = 1
    minibatches: int = 1
    rows: int = 4
    row_length: int = 512
    target_length: int = 512
    head_chunk: int = 128


@dataclasses.dataclass(frozen=True)
class OptimizerSection:
    """AdamW with a schedule that counts training steps.

    Attributes:
        learning_rate: peak.
        schedule: after the warm-up: `constant`, `linear` or `cosine` (both to 0).
        warmup_steps: linear; the first step has 1 / warmup_steps of the peak.
        b1, b2, epsilon: of Adam. weight_decay: of matrices alone.
        clip_norm: bound of the global gradient norm; 0: none.
    """

    learning_rate: float = 3e-4
    schedule: str = "constant"
    warmup_steps: int = 0
    b1: float = 0.9
    b2: float = 0.99
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    clip_norm: float = 1.0


@dataclasses.dataclass(frozen=True)
class MeshSection:
    """Devices of a run, of all its processes, as a grid `data` x `fsdp` x `tensor`.

    Rows of a micro-batch are spread over data x fsdp. One size may be -1: all devices
    that the others leave.

    Attributes:
        data: copies of the weights.
        fsdp: parts that the width of the weights and the optimizer is cut into; brought
            together layer by layer where they are used.
        tensor: parts that heads, MLP and vocabulary are cut into; lies within a
            process.
        heartbeat_seconds: a process that is silent for so long is dead, and ends all.
        wait_seconds: how long a process waits for the slowest, before each phase in
            which their devices speak to each other.
    """

    data: int = 1
    fsdp: int = 1
    tensor: int = 1
    heartbeat_seconds: int = 100
    wait_seconds: int = 3600

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(data, fsdp, tensor)."""
        return self.data, self.fsdp, self.tensor


@dataclasses.dataclass(frozen=True)
class EvalSection:
    """Evaluation, with turns and sampling of its own.

    Attributes:
        every: steps between evaluations in training; 0: none.
        tasks: number of held-out tasks.
        samples: trajectories per task, each of up to `turns` attempts.
        turns: attempts allowed; 1 .. turns are reported.
        expand: who is retried: `visible_failed` gives Iter-k, `unsolved` gives Ver@K.
        pass_at: the k of pass@k, each at most `samples`.
        temperature, top_p, top_k: of sampling; temperature 0 is greedy.
        seed: of the held-out tasks and of sampling.
    """

    every: int = 0
    tasks: int = 500
    samples: int = 4
    turns: int = 3
    expand: str = "visible_failed"
    pass_at: tuple[int, ...] = (1, 4)
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 17


@dataclasses.dataclass(frozen=True)
class SandboxSection:
    """Where model-written programs run (verifiers `code` and `programs`).

    Attributes:
        require: layers without which not to start, of those that
            `rlvr_jax.envs.sandbox.LAYERS` explains: namespaces, files, user, seccomp,
            limits, cgroup. What a host holds is in a run's host.json.
        allow_unsafe: run without a wall where there is none: only for programs that you
            trust, on a machine that may be lost.
    """

    require: tuple[str, ...] = ()
    allow_unsafe: bool = False


@dataclasses.dataclass(frozen=True)
class CheckpointSection:
    """What is kept of a run.

    Attributes:
        every: steps between checkpoints; the last step is always saved.
        keep: newest checkpoints kept.
        keep_every: steps divisible by it are kept as well; 0: no others.
        rollouts_every: steps between rollout files; 0: none.
    """

    every: int = 50
    keep: int = 2
    keep_every: int = 0
    rollouts_every: int = 1


@dataclasses.dataclass(frozen=True)
class Config:
    """One run. Keys, data order and shapes are functions of this and the step.

    Attributes:
        algorithm: name of the preset, for people; nothing reads it.
        seed: of data order and sampling.
        steps: training steps.
    """

    algorithm: str = "grpo"
    seed: int = 0
    steps: int = 100
    model: ModelSection = ModelSection()
    lora: LoraSection = LoraSection()
    tasks: TasksSection = TasksSection()
    sandbox: SandboxSection = SandboxSection()
    rollout: RolloutSection = RolloutSection()
    sampler: SamplerSection = SamplerSection()
    credit: CreditConfig = dataclasses.field(default_factory=CreditConfig)
    objective: ObjectiveSection = ObjectiveSection()
    update: UpdateSection = UpdateSection()
    mesh: MeshSection = MeshSection()
    optimizer: OptimizerSection = OptimizerSection()
    eval: EvalSection = EvalSection()
    checkpoint: CheckpointSection = CheckpointSection()

    @property
    def eval_batch(self) -> int:
        """Tasks evaluated at once: as many as the sampler decodes together."""
        return max(self.rollout.prompts, self.sampler.contexts[-1])

    def longest_path(self, turns: int) -> int:
        """Tokens of the longest path of `turns` attempts."""
        rollout = self.rollout
        return (
            self.tasks.max_prompt_tokens
            + rollout.max_response_tokens * turns
            + rollout.max_feedback_tokens * (turns - 1)
        )

    def longest_context(self) -> int:
        """Tokens before the last attempt, of training or of evaluation."""
        turns = max(self.rollout.layout.num_turns, self.eval.turns)
        return self.longest_path(turns) - self.rollout.max_response_tokens

    def context_lengths(self) -> tuple[int, ...]:
        """Cache sizes of the sampler; by default one that fits every context."""
        return self.sampler.context_lengths or (self.longest_context(),)


def model_directory(config: Config) -> pathlib.Path:
    """The Hugging Face directory of the start policy."""
    if config.model.path:
        return pathlib.Path(config.model.path)
    return pathlib.Path(__file__).parents[1] / "assets" / "tiny_base"
