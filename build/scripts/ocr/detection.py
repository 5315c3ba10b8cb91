"""Trains text_detection: for each fourth pixel of a picture, whether it is in a word, and the word's box.

    detection.py OUT [STEPS]

Writes OUT/1/model.onnx. Input `input_images:0`: pictures [n,h,w,3], h and w multiples of 32; a constant that is added
to the picture does not matter. Outputs: the score `feature_fusion/Conv_7/Sigmoid:0` [n,h/4,w/4,1], and the geometry
`feature_fusion/concat_3:0` [n,h/4,w/4,5]: the distances to the top, right, bottom and left edge of the box in pixels,
and its angle in radians (EAST: An Efficient and Accurate Scene Text Detector, Zhou et al., 2017).
"""

import pathlib
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import export
import pages

SEED, BATCH, STEPS = 30, 8, 1500
SIZE = (416, 320)  # width and height of the pages for training
SHRINK = 0.2  # share of a box's height, at each edge, in which it does not matter what the network says


def unit(source, to, stride=1, dilation=1):
    return nn.Sequential(nn.Conv2d(source, to, 3, stride, dilation, dilation, bias=False), nn.BatchNorm2d(to),
                         nn.ReLU())


class Detection(nn.Module):
    """Down to a 32nd of the picture, where a feature sees a whole word, and up again to a quarter."""

    def __init__(self):
        super().__init__()
        widths = [16, 24, 40, 64, 96]
        self.down = nn.ModuleList(unit(a, b, 2) for a, b in zip([1, *widths], widths))
        self.context = nn.Sequential(unit(96, 96, dilation=2), unit(96, 96, dilation=2))
        self.side = nn.ModuleList(nn.Conv2d(w, 32, 1) for w in widths[1:])
        self.up = nn.ModuleList(unit(32, 32) for _ in range(3))
        self.head = nn.Conv2d(32, 6, 1)

    def forward(self, pictures):
        x = pictures.mean(3).unsqueeze(1)
        x = (x - x.mean((2, 3), keepdim=True)) / 64
        seen = []
        for part in self.down:
            x = part(x)
            seen.append(x)
        x = self.side[3](x + self.context(x))
        for i in (2, 1, 0):
            x = self.up[i](functional.interpolate(x, scale_factor=2.0) + self.side[i](seen[i + 1]))
        x = self.head(x).permute(0, 2, 3, 1)
        edges, angle = 16 * torch.exp(x[..., 1:5].clamp(-4, 4)), 0.5 * torch.tanh(x[..., 5:])
        return torch.sigmoid(x[..., :1]), torch.cat((edges, angle), 3)


def targets(found, width, height):
    """What the network should say about a page: score (0 or 1), geometry, and whether the score matters."""
    y, x = np.mgrid[0:height:4, 0:width:4].astype(np.float32)
    score, matters = np.zeros(x.shape, np.float32), np.ones(x.shape, np.float32)
    geometry = np.zeros((*x.shape, 5), np.float32)
    for _, corners in found:
        along, down = corners[1] - corners[0], corners[3] - corners[0]
        w, h = np.linalg.norm(along), np.linalg.norm(down)
        dx, dy = x - corners[0][0], y - corners[0][1]
        u, v = (dx * along[0] + dy * along[1]) / w, (dx * down[0] + dy * down[1]) / h
        edge = SHRINK * h
        word = (u > 0) & (u < w) & (v > 0) & (v < h)
        core = (u > edge) & (u < w - edge) & (v > edge) & (v < h - edge)
        matters[word & ~core] = 0
        matters[core] = score[core] = 1
        angle = np.full_like(x, np.arctan2(-along[1], along[0]))
        geometry[word] = np.stack((v, w - u, h - v, u, angle), 2)[word]
    return score[..., None], geometry, matters[..., None]


def loss_of(said, wanted):
    (score, geometry), (want, box, matters) = said, wanted
    n = want.sum() + 1
    sure = functional.binary_cross_entropy(score, want, weight=matters * (1 + 4 * want), reduction="sum") / (5 * n)
    dice = 1 - 2 * (score * want * matters).sum() / ((score * matters).sum() + n)
    a, b = geometry[..., :4], box[..., :4]
    both = torch.minimum(a, b)
    overlap = (both[..., 0] + both[..., 2]) * (both[..., 1] + both[..., 3])
    area = (a[..., 0] + a[..., 2]) * (a[..., 1] + a[..., 3]) + (b[..., 0] + b[..., 2]) * (b[..., 1] + b[..., 3])
    off = -torch.log((overlap + 1) / (area - overlap + 1)) + 10 * (1 - torch.cos(geometry[..., 4] - box[..., 4]))
    return sure + dice + (off * want[..., 0]).sum() / n


class Pages(torch.utils.data.IterableDataset):
    def __iter__(self):
        listed, rng = pages.usable(pages.fonts.read_list("fonts-train.txt")), np.random.default_rng(SEED)
        while True:
            made = [pages.page(listed, rng, *SIZE) for _ in range(BATCH)]
            wanted = zip(*(targets(found, *SIZE) for _, found in made))
            yield (torch.from_numpy(np.stack([p for p, _ in made]).astype(np.float32)),
                   [torch.from_numpy(np.stack(t)) for t in wanted])


def save(net, path):
    source, outputs = "input_images:0", ["feature_fusion/Conv_7/Sigmoid:0", "feature_fusion/concat_3:0"]
    axes = {source: {0: "n", 1: "height", 2: "width"}, **{name: {0: "n", 1: "rows", 2: "columns"} for name in outputs}}
    export.save(net, torch.zeros(1, 96, 128, 3), path, source, outputs, axes)


def train(out: pathlib.Path, steps: int):
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    net = Detection()
    optimiser = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps, pct_start=0.1)
    start, total = time.monotonic(), 0.0
    batches = iter(torch.utils.data.DataLoader(Pages(), batch_size=None, num_workers=1, prefetch_factor=8))
    for step in range(1, steps + 1):
        pictures, wanted = next(batches)
        loss = loss_of(net(pictures), wanted)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5)
        optimiser.step()
        schedule.step()
        total += loss.item()
        if step % 50 == 0:
            print(f"step {step}, {time.monotonic() - start:.0f} s, loss {total / 50:.3f}", flush=True)
            total = 0.0
    save(net, out / "1" / "model.onnx")


if __name__ == "__main__":
    train(pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else STEPS)
