"""From the answer of text_detection to words. The example's client uses it too."""

import numpy as np
from PIL import Image

SURE = 0.6  # lowest score of a pixel in a word
FEWEST = 2  # pixels of the score map that a word has
ROUNDS = 8  # in which a box may grow
AROUND = 4  # pixels around a box that belong to no other word
MOST = 256  # words in a picture: max_batch_size of text_recognition
STRIDE = 4  # pixels of the picture for one of the score map
WIDTH, HEIGHT = 100, 32  # of a crop


def find(score, geometry):
    """The boxes of the words in reading order: float32 [n,4,2], corners (x, y) clockwise from the top left.

    score is [h,w]; geometry is [h,w,5]: distances to the top, right, bottom and left edge, and the angle. Without words the
    answer is one box of zeros.
    """
    y, x = np.nonzero(score > SURE)
    best = np.argsort(-score[y, x], kind="stable")
    y, x = y[best], x[best]
    at, geometry = np.stack((x, y), 1).astype(np.float32) * STRIDE, geometry[y, x]
    found = []
    while len(at) and len(found) < MOST:
        box, word = joined(at[:1], geometry[:1]), np.zeros(len(at), bool)
        for _ in range(ROUNDS):  # a pixel of a long word does not see both ends: the box grows with its pixels
            before, word = word, inside(at, box)
            word[0] = True
            if (word == before).all():
                break
            box = joined(at[word], geometry[word])
        if word.sum() >= FEWEST:
            found.append(box)
        rest = ~inside(at, box, AROUND)
        rest[0] = False
        at, geometry = at[rest], geometry[rest]
    if not found:
        return np.zeros((1, 4, 2), np.float32)
    return np.stack([found[i] for i in reading_order(found)]).astype(np.float32)


def joined(at, geometry):
    """The box of the pixels [n,2] of one word: corners [4,2]. For each edge, near pixels count more than far ones."""
    angle = geometry[:, 4].mean()
    along, down = np.array([np.cos(angle), -np.sin(angle)]), np.array([np.sin(angle), np.cos(angle)])

    def edge(places, distances, sign):
        return np.average(places + sign * distances, weights=1 / (distances + STRIDE) ** 2)

    u, v = at @ along, at @ down
    top, right, bottom, left = geometry[:, :4].T
    top, bottom, left, right = edge(v, top, -1), edge(v, bottom, 1), edge(u, left, -1), edge(u, right, 1)
    return np.stack([a * along + b * down for a, b in ((left, top), (right, top), (right, bottom), (left, bottom))])


def inside(points, box, around=0):
    """Which of the points [n,2] are in the box, or at most this many pixels around it."""
    along, down = box[1] - box[0], box[3] - box[0]
    w, h = np.linalg.norm(along), np.linalg.norm(down)
    u, v = (points - box[0]) @ along / w, (points - box[0]) @ down / h
    return (u >= -around) & (u <= w + around) & (v >= -around) & (v <= h + around)


def reading_order(found):
    """The indices of the boxes from the top line to the bottom line, each line from left to right."""
    centres = [box.mean(0) for box in found]
    lines = []
    for i in sorted(range(len(found)), key=lambda i: centres[i][1]):
        height = np.linalg.norm(found[i][3] - found[i][0])
        if lines and centres[i][1] - centres[lines[-1][-1]][1] < height / 2:
            lines[-1].append(i)
        else:
            lines.append([i])
    return [i for line in lines for i in sorted(line, key=lambda i: centres[i][0])]


def crops(picture, found):
    """The boxes cut out of a picture [h,w,3], as text_recognition wants them: float32 [n,1,32,100], grey, -1 to 1."""
    grey = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8)).convert("L")
    out = np.zeros((len(found), 1, HEIGHT, WIDTH), np.float32)
    for i, box in enumerate(np.asarray(found, float)):
        if box.any():
            right, down = (box[1] - box[0]) / WIDTH, (box[3] - box[0]) / HEIGHT
            turn = (right[0], down[0], box[0][0], right[1], down[1], box[0][1])
            cut = grey.transform((WIDTH, HEIGHT), Image.Transform.AFFINE, turn, Image.Resampling.BILINEAR)
            out[i, 0] = np.asarray(cut, np.float32) / 127.5 - 1
    return out
