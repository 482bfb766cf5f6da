"""Train language models to fix their own mistakes: RL with verifiable rewards."""

__version__ = "0.1.0"
