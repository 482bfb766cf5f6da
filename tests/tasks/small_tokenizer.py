"""A small byte-level tokenizer as a Hugging Face directory, with any template."""

import json

from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from tokenizers.trainers import BpeTrainer

SPECIALS = ("<|text|>", "<|start|>", "<|stop|>", "<think>", "<|head|>")
BEGIN, START, STOP, THINK, HEAD = range(5)
CORPUS = [
    "def f(x):\n    return x * x + 3\n",
    "hello hello help held 12 123 1234",
    "user\nassistant\nsystem\nUser:\nAssistant:\n",
]


def write_model(directory, *, template=None, adds_bos=False, config=None, **files):
    """Writes a small byte-level tokenizer with digits apart, and the given files."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    special = [AddedToken(text, special=True, normalized=False) for text in SPECIALS]
    trainer = BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    if adds_bos:
        backend.post_processor = processors.TemplateProcessing(
            single="<|text|> $A", special_tokens=[("<|text|>", BEGIN)]
        )
    content = json.loads(backend.to_str())
    # A merge that the digits rule never allows: whoever loses the rule uses it.
    content["model"]["vocab"]["12"] = len(content["model"]["vocab"])
    content["model"]["merges"].append(["1", "2"])
    (directory / "tokenizer.json").write_text(json.dumps(content))
    # A class that transformers would rebuild without the digits rule.
    settings = {"tokenizer_class": "GPT2Tokenizer", **(config or {})}
    if template is not None:
        settings["chat_template"] = template
    files = {"tokenizer_config.json": settings, **files}
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content))
    return directory
