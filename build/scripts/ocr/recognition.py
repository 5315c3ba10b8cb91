"""Trains text_recognition in two versions: version 1 is the network early in its training, version 2 at the end.

    recognition.py OUT [STEPS]

Writes OUT/1/model.onnx and OUT/2/model.onnx. Input `input.1`: words of 32x100 grey values, -1 to 1. Output `308`: for
each of 26 columns the scores of "nothing" and the characters of ALPHABET (connectionist temporal classification).
"""

import pathlib
import sys
import time

import numpy as np
import torch
from torch import nn

import export
import pages

sys.path.insert(0, str(pages.ROOT / "docs/examples/ocr/models/recognition_postprocessing/1"))
from letters import ALPHABET, decode  # noqa: E402

SEED, POOL, BATCH, STEPS, EARLY = 20, 40000, 64, 3600, 400
FRESH = 3  # how often a crop is used before another replaces it


def unit(source, to, kernel=3, padding=1, stride=1):
    return nn.Sequential(nn.Conv2d(source, to, kernel, stride, padding, bias=False), nn.BatchNorm2d(to), nn.ReLU())


class Recognition(nn.Module):
    """Halves the height five times and the width twice; then one row of 26 columns sees its neighbours."""

    def __init__(self):
        super().__init__()
        self.eyes = nn.Sequential(
            unit(1, 24, 5, 2, 2), unit(24, 40), nn.MaxPool2d(2), unit(40, 64), nn.MaxPool2d((2, 1)),
            unit(64, 96), nn.MaxPool2d((2, 1)), unit(96, 128, (2, 2), (0, 1)))
        self.context = nn.ModuleList(unit(128, 128, (1, 3), (0, 1)) for _ in range(2))
        self.scores = nn.Conv2d(128, 1 + len(ALPHABET), 1)

    def forward(self, x):
        x = self.eyes(x)
        for part in self.context:
            x = x + part(x)
        return self.scores(x).squeeze(2).transpose(1, 2)


def accuracy(net, crops, texts) -> float:
    net.eval()
    with torch.no_grad():
        said = decode(net(tensor(crops)))
    net.train()
    return sum(a == b for a, b in zip(said, texts)) / len(texts)


def tensor(crops):
    return torch.from_numpy(np.stack(crops)[:, None].astype(np.float32) / 127.5 - 1)


class Crops(torch.utils.data.IterableDataset):
    """Batches of crops and texts, made in a process of its own. Words that need more columns than there are do not
    occur."""

    def __init__(self, listed):
        self.listed = listed

    def __iter__(self):
        rng, held = np.random.default_rng(SEED), []
        while True:
            for _ in range(BATCH // FRESH):
                held.append(pages.word_crop(self.listed, rng))
            if len(held) > POOL:
                del held[: BATCH // FRESH]
            at = rng.integers(0, len(held), BATCH)
            at[: BATCH // FRESH] = np.arange(len(held) - BATCH // FRESH, len(held))
            crops, texts = zip(*(held[i] for i in at))
            yield (tensor(crops), torch.tensor([ALPHABET.index(c) + 1 for t in texts for c in t]),
                   torch.tensor([len(t) for t in texts]))


def save(net, path):
    export.save(net, torch.zeros(1, 1, 32, 100), path, "input.1", ["308"], {"input.1": {0: "n"}, "308": {0: "n"}})


def train(out: pathlib.Path, steps: int):
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    listed = pages.usable(pages.fonts.read_list("fonts-train.txt"))
    unseen, rng = pages.usable(pages.fonts.read_list("fonts-test.txt")), np.random.default_rng(SEED + 1)
    crops, texts = zip(*(pages.word_crop(unseen, rng) for _ in range(1000)))
    net = Recognition()
    optimiser = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps, pct_start=0.1)
    loss_of, start = nn.CTCLoss(zero_infinity=True), time.monotonic()
    batches = iter(torch.utils.data.DataLoader(Crops(listed), batch_size=None, num_workers=1, prefetch_factor=8))
    for step in range(1, steps + 1):
        x, targets, lengths = next(batches)
        scores = net(x).log_softmax(2).transpose(0, 1)
        loss = loss_of(scores, targets, torch.full((len(x),), scores.shape[0]), lengths)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5)
        optimiser.step()
        schedule.step()
        if step % 250 == 0 or step == EARLY:
            print(f"step {step}, {time.monotonic() - start:.0f} s, loss {loss.item():.3f}, "
                  f"words right in unseen fonts {accuracy(net, crops, texts):.3f}", flush=True)
        if step == EARLY:
            save(net, out / "1" / "model.onnx")
    save(net, out / "2" / "model.onnx")


if __name__ == "__main__":
    train(pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else STEPS)
