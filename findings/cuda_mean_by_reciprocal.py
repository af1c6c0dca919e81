"""CUDA: a float32 tensor divided by a Python number is multiplied by its reciprocal: exact means are one unit off."""

import sys

import torch

if not torch.cuda.is_available():
    print("could not judge: this needs a CUDA device")
    sys.exit(2)
exact = torch.arange(1, 1 << 20, dtype=torch.float32)
mean = (exact * 7).cuda() / 7
wrong = (mean.cpu() != exact).nonzero()
print("expected 0 wrong quotients\nobserved", len(wrong))
if len(wrong):
    at = int(wrong[0])
    print(f"first: {exact[at] * 7:.9g} / 7 is {mean[at].item():.9g}")
sys.exit(bool(len(wrong)))
