"""A small neural network library in numpy. It trains digits and mlp on one core, with reproducible results.

Arrays are float32, pictures NHWC. forward keeps the values that backward needs. backward takes the gradient of the loss
with respect to the layer's output, sets self.grads, and returns the gradient with respect to the layer's input.
"""

import sys
import time

import numpy as np


class Conv:
    """k x k convolution, stride 1, zero padding that keeps the size. first: the gradient of the input is not needed."""

    def __init__(self, rng, k: int, cin: int, cout: int, first: bool = False):
        self.k, self.first = k, first
        w = rng.normal(0, np.sqrt(2 / (k * k * cin)), (k * k * cin, cout))
        self.params = [w.astype(np.float32), np.zeros(cout, np.float32)]  # rows of w: (ky, kx, cin)

    def forward(self, x, training):
        n, h, w, c = x.shape
        k, p = self.k, self.k // 2
        xp = np.pad(x, ((0, 0), (p, p), (p, p), (0, 0)))
        cols = np.empty((n, h, w, k * k, c), np.float32)
        for i in range(k * k):
            dy, dx = divmod(i, k)
            cols[:, :, :, i] = xp[:, dy : dy + h, dx : dx + w]
        self.cols, self.shape = cols.reshape(n * h * w, k * k * c), x.shape
        return (self.cols @ self.params[0] + self.params[1]).reshape(n, h, w, -1)

    def backward(self, g):
        n, h, w, c = self.shape
        k, p = self.k, self.k // 2
        g = g.reshape(n * h * w, -1)
        self.grads = [self.cols.T @ g, g.sum(0)]
        if self.first:
            return None
        d = (g @ self.params[0].T).reshape(n, h, w, k * k, c)
        out = np.zeros((n, h + 2 * p, w + 2 * p, c), np.float32)
        for i in range(k * k):
            dy, dx = divmod(i, k)
            out[:, dy : dy + h, dx : dx + w] += d[:, :, :, i]
        return out[:, p : p + h, p : p + w]


class Pool:
    """2 x 2 maximum. Equal maxima each get the gradient: after a ReLU they are nearly always zeros."""

    params, grads = [], []

    def forward(self, x, training):
        n, h, w, c = x.shape
        self.x = x.reshape(n, h // 2, 2, w // 2, 2, c)
        self.y = self.x.max((2, 4), keepdims=True)
        return self.y[:, :, 0, :, 0]

    def backward(self, g):
        n, h, _, w, _, c = self.x.shape
        return ((self.x == self.y) * g[:, :, None, :, None]).reshape(n, 2 * h, 2 * w, c)


class Dense:
    def __init__(self, rng, cin: int, cout: int):
        self.params = [rng.normal(0, np.sqrt(2 / cin), (cin, cout)).astype(np.float32), np.zeros(cout, np.float32)]

    def forward(self, x, training):
        self.shape, self.x = x.shape, x.reshape(len(x), -1)
        return self.x @ self.params[0] + self.params[1]

    def backward(self, g):
        self.grads = [self.x.T @ g, g.sum(0)]
        return (g @ self.params[0].T).reshape(self.shape)


class ReLU:
    params, grads = [], []

    def forward(self, x, training):
        self.on = x > 0
        return x * self.on

    def backward(self, g):
        return g * self.on


class Dropout:
    params, grads = [], []

    def __init__(self, rng, share: float):
        self.rng, self.share = rng, share

    def forward(self, x, training):
        if not training:
            return x
        self.keep = (self.rng.random(x.shape, np.float32) >= self.share) / np.float32(1 - self.share)
        return x * self.keep

    def backward(self, g):
        return g * self.keep


def logits(layers, x, training=False):
    for layer in layers:
        x = layer.forward(x, training)
    return x


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def predict(layers, x: np.ndarray) -> np.ndarray:
    """Labels for uint8 pictures [n,28,28]."""
    parts = [logits(layers, prepare(x[i : i + 500])).argmax(1) for i in range(0, len(x), 500)]
    return np.concatenate(parts)


def prepare(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float32) / 255)[..., None]


def fit(layers, x, y, epochs: int, seed: int, batch: int = 64, rate: float = 2e-3, decay: float = 1e-4, report=None):
    """AdamW with warm-up and a cosine rate, on softmax cross-entropy. Half of the pictures of each batch are
    inverted."""
    rng = np.random.default_rng(seed)
    params = [p for layer in layers for p in layer.params]
    m, v = ([np.zeros_like(p) for p in params] for _ in range(2))
    steps, t = epochs * (len(x) // batch), 0
    for epoch in range(epochs):
        order, start, right, seen = rng.permutation(len(x)), time.monotonic(), 0, 0
        for at in range(0, len(x) - batch + 1, batch):
            take = order[at : at + batch]
            xb, yb = prepare(x[take]), y[take]
            flip = rng.random(batch) < 0.5
            xb[flip] = 1 - xb[flip]
            p = softmax(logits(layers, xb, training=True))
            right, seen = right + int((p.argmax(1) == yb).sum()), seen + batch
            p[np.arange(batch), yb] -= 1
            g = p / np.float32(batch)
            for layer in reversed(layers):
                g = layer.backward(g)
            t += 1
            lr = rate * min(1, t / 200) * 0.5 * (1 + np.cos(np.pi * t / steps))
            grads = [gr for layer in layers for gr in layer.grads]
            for p_, g_, m_, v_ in zip(params, grads, m, v):
                m_ += 0.1 * (g_ - m_)
                v_ += 0.001 * (g_ * g_ - v_)
                step = (m_ / (1 - 0.9**t)) / (np.sqrt(v_ / (1 - 0.999**t)) + 1e-8)
                p_ -= np.float32(lr) * (step + (decay * p_ if p_.ndim > 1 else 0))
        print(f"epoch {epoch + 1}/{epochs}: {right / seen:.4f} right in training, "
              f"{time.monotonic() - start:.0f} s {report() if report else ''}", file=sys.stderr, flush=True)
