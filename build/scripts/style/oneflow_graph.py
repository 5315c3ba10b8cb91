"""Saves the network of train.py as a graph of OneFlow: oneflow_graph.py WEIGHTS.npz FOLDER (see weights.py)."""

import sys

import numpy as np
import oneflow as flow
from oneflow import nn


class Layer(nn.Module):
    def __init__(self, weights, i):
        super().__init__()
        self.edges = nn.ReflectionPad2d(weights[f"filters{i}"].shape[2] // 2)
        self.filters = convolution(weights[f"filters{i}"], weights[f"bias{i}"])
        self.weights = convolution(weights[f"weights{i}"], weights[f"offset{i}"])

    def forward(self, x):
        return self.weights(flow.relu(self.filters(self.edges(x))))


def convolution(kernel, bias):
    made = nn.Conv2d(kernel.shape[1], kernel.shape[0], kernel.shape[2])
    made.load_state_dict({"weight": flow.tensor(kernel), "bias": flow.tensor(bias)})
    return made


class Style(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.first, self.second = Layer(weights, 1), Layer(weights, 2)

    def forward(self, pictures):
        x = pictures / 127.5 - 1
        draft = self.first(x)
        return flow.clamp((draft + self.second(flow.cat((x, draft), 1)) + 1) * 127.5, 0, 255)


class Graph(nn.Graph):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def build(self, pictures):
        return self.net(pictures)


if __name__ == "__main__":
    graph = Graph(Style(dict(np.load(sys.argv[1]))).eval())
    graph(flow.zeros(1, 3, 256, 256))
    flow.save(graph, sys.argv[2])
