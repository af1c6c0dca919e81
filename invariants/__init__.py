"""The laws."""
from invariants.evidence import *  # noqa
from invariants.evidence import Buffer, Call, Claim, Cost, Evidence, Expected, Held, RankStory, Seen, Step, Subject
from invariants.law import Judgement, Law, Violation, judge
LAWS = ()
