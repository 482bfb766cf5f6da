"""How much of verification overlaps with decoding, on the quickstart.

    PYTHONPATH=. python tests/benchmarks/overlap.py [--steps 6] [--contexts 32 16]

Rollouts of the start policy alternate between the plain one and one that may sample
only when nothing is being verified; both sample the same waves. Each is run with the
real verifier and with a slow one, which sleeps `--sleep` seconds per response before
that: work that costs no time of this host's processors.
Prints seconds per rollout, medians over the steps, with the first one left out. With
fewer contexts decoded together there are more waves, each of which costs more per
response, and the first turn has others behind which its verification hides: 32 prompts
are one wave of 32 contexts.

Seen on 2 busy CPU cores, three steps, against a rollout that verifies a turn as one
batch: with 32 contexts 6.0 s against 6.6 s with the real verifier, and 6.3 s against
8.8 s with the slow one (it waits 2.7 s instead of 4.4 s); with 16 contexts 3.9 s
against 6.3 s, and 6.1 s against 8.4 s.
"""

import argparse
import collections
import statistics
import threading
import time

import jax

from configs import quickstart
from rlvr_jax import config as configs
from rlvr_jax.rollout import rollout
from rlvr_jax.training.workbench import open_workbench


class Serial:
    """A sampler that waits for the end of all verification before each call."""

    def __init__(self, sampler, verify):
        self.buckets, self._sampler, self._verify = sampler.buckets, sampler, verify
        self._asked, self._done, self._changed = 0, 0, threading.Condition()

    def verify(self, pairs):
        try:
            return self._verify(pairs)
        finally:
            with self._changed:
                self._done += 1
                self._changed.notify()

    def _wait(self):
        with self._changed:
            self._changed.wait_for(lambda: self._done == self._asked)
        self._asked += 1

    def generate(self, *args, **settings):
        self._wait()
        return self._sampler.generate(*args, **settings)

    def extend(self, *args, **settings):
        self._wait()
        return self._sampler.extend(*args, **settings)


def one(bench, params, verify, step, overlap):
    """Seconds of one rollout by phase."""
    serial = Serial(bench.sampler, verify)
    bench.verifier._verdicts.clear()  # both kinds grade the same responses
    start = time.perf_counter()
    grown = rollout(
        bench.sampler if overlap else serial,
        params,
        bench.stream.batch(step, bench.config.rollout.prompts),
        tokenizer=bench.tokenizer,
        verify=verify if overlap else serial.verify,
        limits=bench.limits,
        key=jax.random.key(step),
    )
    seconds = {"total": time.perf_counter() - start, **grown.seconds}
    if not overlap:  # it waits inside the sampler's calls
        seconds["verify"] += seconds.pop("verify_hidden")
        seconds["sample"] = seconds["total"] - seconds["verify"]
    return seconds


def opened(contexts):
    """A workbench whose sampler decodes so many contexts together."""
    values = quickstart.get_config("murphy_mars")
    values.sampler.contexts = (contexts,)
    bench, params = open_workbench(configs.parse(values))
    bench.warm_up(params, training=True, evaluation=False)
    return bench, params


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--contexts", type=int, nargs="+", default=[32, 16])
    parser.add_argument("--sleep", type=float, default=0.003)
    settings = parser.parse_args()
    benches = {contexts: opened(contexts) for contexts in settings.contexts}
    found = collections.defaultdict(list)
    for step in range(settings.steps):
        for contexts, (bench, params) in benches.items():

            def slow(pairs, verifier=bench.verifier):
                time.sleep(settings.sleep * len(pairs))
                return verifier.verify(pairs)

            for label, verify in (("real", bench.verifier.verify), ("slow", slow)):
                for name in ("overlap", "serial"):
                    seconds = one(bench, params, verify, step, name == "overlap")
                    found[label, contexts, name].append(seconds)
    for (label, contexts, name), rows in found.items():
        medians = {
            key: statistics.median(row[key] for row in rows[1:]) for key in rows[0]
        }
        shown = "  ".join(f"{key} {value:.2f}" for key, value in medians.items())
        print(f"{label:5} contexts {contexts:3} {name:8} {shown}")
    for bench, _ in benches.values():
        bench.verifier.close()


if __name__ == "__main__":
    main()
