"""From the answer of text_recognition to texts. The example's client and the training use it too."""

import numpy as np

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"  # class 0 is: nothing
DIGITS, LETTERS = np.r_[0, 1:11], np.r_[0, 11:37]  # classes


def decode(scores):
    """The texts of scores [n,26,37]: the best class of each column, without repetitions and without nothings.

    A word is a number or it has letters only, whichever is likelier: 0 and o look alike in many fonts. A word that mixes
    both, such as "a4", is therefore read wrong.
    """
    scores = np.asarray(scores)
    number, word = scores[:, :, DIGITS].max(2).sum(1), scores[:, :, LETTERS].max(2).sum(1)
    is_number = (number > word)[:, None]
    best = np.where(is_number, DIGITS[scores[:, :, DIGITS].argmax(2)], LETTERS[scores[:, :, LETTERS].argmax(2)])
    before = np.pad(best, ((0, 0), (1, 0)))[:, :-1]
    return ["".join(ALPHABET[c - 1] for c in row[keep]) for row, keep in zip(best, (best > 0) & (best != before))]
