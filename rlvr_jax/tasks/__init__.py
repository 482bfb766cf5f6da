"""Task records, dataset readers, program synthesis tasks and tokenizers. No jax."""

from rlvr_jax.tasks.arithmetic import arithmetic_tasks
from rlvr_jax.tasks.characters import build_character_tokenizer
from rlvr_jax.tasks.readers import read_tasks
from rlvr_jax.tasks.reasoning import generate_reasoning
from rlvr_jax.tasks.records import Task
from rlvr_jax.tasks.selection import within_difficulty, without_duplicates
from rlvr_jax.tasks.stream import DatasetStream, ProgramStream
from rlvr_jax.tasks.synthesis import longest_prompts, synthesize
from rlvr_jax.tasks.tokenizers import Tokenizer, load_tokenizer

__all__ = [
    "DatasetStream",
    "ProgramStream",
    "Task",
    "Tokenizer",
    "arithmetic_tasks",
    "build_character_tokenizer",
    "generate_reasoning",
    "load_tokenizer",
    "longest_prompts",
    "read_tasks",
    "synthesize",
    "within_difficulty",
    "without_duplicates",
]
