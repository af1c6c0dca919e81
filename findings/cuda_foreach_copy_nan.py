"""CUDA: torch._foreach_copy_, which FSDP2 packs a gather by, changes the bits of a bfloat16 NaN; copy_ keeps them."""

import sys

import torch

if not torch.cuda.is_available():
    print("could not judge: this needs a CUDA device")
    sys.exit(2)
bits = torch.tensor([0x7F81, -127], dtype=torch.int16, device="cuda")  # two NaNs: 0x7F81 and 0xFF81
source = bits.view(torch.bfloat16)
copied, packed = torch.empty_like(source), torch.empty_like(source)
copied.copy_(source)
torch._foreach_copy_([packed], [source])
expected = [f"{word & 0xFFFF:#06x}" for word in bits.tolist()]
plain = [f"{word & 0xFFFF:#06x}" for word in copied.view(torch.int16).tolist()]
observed = [f"{word & 0xFFFF:#06x}" for word in packed.view(torch.int16).tolist()]
print("expected", expected, "(copy_:", plain, ")\nobserved", observed)
sys.exit(observed != expected)
