from dataclasses import dataclass
@dataclass
class T:
    target: str
    preload: tuple=()
def resolve(name): return T(name,(name.partition(":")[0],))
