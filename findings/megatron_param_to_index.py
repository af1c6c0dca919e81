"""Megatron-Core: a gathered parameter is read as if the buffer had no padding (reuse_grad_buf_for_mxfp8_param_ag)."""

import sys
import tempfile
import warnings

import torch
import torch.distributed as dist

warnings.simplefilter("ignore")
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig  # noqa: E402
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer  # noqa: E402
from megatron.core.process_groups_config import ProcessGroupCollection  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402

dist.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
torch.cuda.current_device = lambda: torch.device("cpu")  # where buffers are allocated; nothing else asks for CUDA here
alone = dist.group.WORLD
groups = ProcessGroupCollection(dp=alone, dp_cp=alone, expt_dp=alone, tp=alone, pp=alone, ep=alone)
module = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(5))])
config = DistributedDataParallelConfig(
    use_distributed_optimizer=True, fp8_param_gather=True, reuse_grad_buf_for_mxfp8_param_ag=True
)
model = TransformerConfig(num_layers=1, hidden_size=1, num_attention_heads=1)
ddp = DistributedDataParallel(model, config, module, pg_collection=groups)

# As the optimizer's _copy_main_params_to_param_buffer stages new values before the all-gather.
((bucket_map,),) = DistributedOptimizer._build_gbuf_range_map(ddp.buffers[0]).values()
for value, param in enumerate(module, 1):
    own = bucket_map["param_map"][param]["gbuf_world_in_bucket"]
    ddp.buffers[0].buckets[0].param_data[own.start : own.end] = value
ddp.start_param_sync()

expected, observed = [[1.0] * 3, [2.0] * 5], [param.tolist() for param in module]
print(f"expected {expected}\nobserved {observed}")
sys.exit(observed != expected)
