"""What a site keeps with Flower."""

import pytest
from flwr.app import Context, RecordDict

import discreet
from discreet.plan.file import dumps
from discreet.session.messages import MessageError
from discreet.session.state import InFolder
from discreet.transport.flower.records import MemoryInContext

pytestmark = pytest.mark.flower
PLAN = discreet.recommend(discreet.PublicFacts(900, 0.3), discreet.DistributedDP(1))


def test_another_process_with_another_folder_knows_the_plan_of_the_session(tmp_path):
    context = Context(1, 2, {}, RecordDict(), {})
    first = MemoryInContext(context, InFolder(tmp_path / "a"))
    first.keep(PLAN, dumps(PLAN))
    other = MemoryInContext(context, InFolder(tmp_path / "b"))
    assert other.plan(PLAN.digest()) == PLAN
    with pytest.raises(MessageError, match="not known here"):
        other.plan(bytes(32))
