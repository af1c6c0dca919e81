import json
from dataclasses import asdict
from shardproof.case import *
def encode(case): return json.dumps(asdict(case))
def tup(x): return tuple(tup(i) for i in x) if isinstance(x,list) else x
def decode(s):
    d=json.loads(s)
    mk=lambda cls,x: cls(**{k:tup(v) for k,v in x.items()})
    return Case(tuple(mk(Group,g) for g in d["groups"]),tuple(mk(Parameter,g) for g in d["parameters"]),tuple(mk(Operation,g) for g in d["program"]),mk(LayoutSpec,d["layout"]),tuple(mk(Divergence,g) for g in d["divergences"]),tuple(mk(Delay,g) for g in d["delays"]),d["seed"])
