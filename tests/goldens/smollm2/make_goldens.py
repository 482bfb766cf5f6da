"""Golden numbers of SmolLM2-135M-Instruct, computed by transformers and torch.

    launch/fetch_smollm2.sh DIR
    python tests/goldens/smollm2/make_goldens.py DIR

Run by hand where torch and transformers are installed; writes goldens.json beside
this file. Texts go through the model one at a time, without padding or a cache, in
float32. A changed number means a changed model or tokenizer: look before committing.
"""

import argparse
import hashlib
import json
import pathlib

import torch
import transformers

QUESTIONS = (
    "What is 2+3?",
    "Write a Python function that tells whether a number is even.",
)
TEXTS = (
    "The river was low that summer, and the children could walk across it.",
    "Water boils at 100 degrees Celsius at sea level, and at 93 degrees in Denver.",
    "Question: A box holds 12 eggs. How many eggs are in 7 boxes?\nAnswer: 84",
    "12 + 30 = 42, 99 - 100 = -1 and 3.5 * 2 = 7.0",
    "1,234,567 is larger than 1234566.",
    "def add(a, b):\n    return a + b\n\n\nassert add(2, 3) == 5\n",
    "for i in range(10):\n\tif i % 2 == 0:\n\t\tprint(i, end=' ')\n",
    "class Node:\n    def __init__(self, value=None):\n        self.value = value\n",
    "SELECT name, COUNT(*) FROM users WHERE age >= 18 GROUP BY name;",
    '{"name": "Ada", "born": 1815, "tags": ["math", "code"]}',
    "Traceback (most recent call last):\n  ZeroDivisionError: division by zero",
    "The test failed: expected [1, 2, 3] but got [3, 2, 1]. Please try again.",
    "Caf\u00e9 na\u00efve, \u00fcber, stra\u00dfe, ma\u00f1ana.",
    "\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd\u3067\u3059\u3002",
    "Rockets \U0001f680 and \u2200x \u2208 \u211d: x\u00b2 \u2265 0.",
    "It's what we'd call a user's mistake; they've fixed it, haven't they?",
    "  two leading spaces,   three inside, and one at the end ",
    "Hello",
)


def golden(text: str, tokenizer, model) -> dict:
    """Token ids, mean log-probability and the top five next tokens of one text."""
    ids = tokenizer(text).input_ids
    if tokenizer.decode(ids) != text:
        raise ValueError(f"the tokenizer does not give {text!r} back")
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    assert logits.dtype == torch.float32
    log_probs = logits.double().log_softmax(-1)
    # The first token has no context and is not scored.
    targets = torch.tensor(ids[1:])[:, None]
    scored = log_probs[:-1].gather(1, targets)
    top = logits[-1].topk(5)
    return {
        "text": text,
        "token_ids": ids,
        "mean_log_prob": scored.mean().item() if len(ids) > 1 else None,
        "top_ids": top.indices.tolist(),
        "top_logits": [round(value, 5) for value in top.values.tolist()],
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Write goldens.json")
    parser.add_argument("directory", type=pathlib.Path)
    directory = parser.parse_args().directory
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32
    ).eval()
    rendered = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}],
            add_generation_prompt=True,
            tokenize=False,
        )
        for question in QUESTIONS
    ]
    with open(directory / "model.safetensors", "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    result = {
        "made_by": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "model.safetensors sha256": digest,
        },
        "texts": [golden(text, tokenizer, model) for text in (*TEXTS, *rendered)],
    }
    output = pathlib.Path(__file__).with_name("goldens.json")
    output.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
