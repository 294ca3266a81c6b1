"""The event simulation of placed graphs against schedules made by hand."""

import numpy as np
import pytest

from tests.support.placed_graphs import problem
from topoopt.native import placement
from topoopt.simulate.placement import ordered, placement_arrays, simulated, uniform_rates, within_links


def span(instance, device, priority=None, rates=None):
    """Makespan of a placement."""
    a = placement_arrays(instance)
    table = uniform_rates(a) if rates is None else np.array(rates, dtype=float) * 125_000
    order = None if priority is None else np.array(priority, dtype=float)
    return simulated(a, np.array(device), table, order).makespan_ms


def test_chain_pays_each_cut_and_its_latency():
    """Two operators on two devices: 3 + (0.5 + 2) + 4; on one device no transfer."""
    chain = problem([3, 4], [(0, [1], 2)], [1, 1], alpha=0.5)
    assert span(chain, [0, 1]) == 9.5
    assert span(chain, [0, 0]) == 7


def test_a_tensor_is_sent_once_per_device():
    """Two consumers on the same remote device share one transfer of 2 ms."""
    fan = problem([1, 1, 1], [(0, [1, 2], 2)], [1, 1], sharing="fifo")
    a = placement_arrays(fan)
    result = simulated(a, np.array([0, 1, 1]), uniform_rates(a))
    assert len(result.transfers) == 1
    assert result.makespan_ms == 1 + 2 + 1 + 1


@pytest.mark.parametrize(("sharing", "expected"), [("fair", 9.0), ("fifo", 8.0), ("none", 7.0), ("static", 9.0)])
def test_two_transfers_out_of_one_server(sharing, expected):
    """1 ms, then tensors of 2 ms each to devices 1 and 2, where operators of 4 and 3 ms run.

    Shared fairly both arrive at 5; queued the first (of the longer tail) arrives at 3 and the second at 5; alone at 3.
    """
    fork = problem([1, 4, 3], [(0, [1], 2), (0, [2], 2)], [1, 1, 1], sharing=sharing)
    assert span(fork, [0, 1, 2]) == pytest.approx(expected)


def test_incast_is_shared_on_the_way_in():
    """Two servers send 2 ms each to a third: its link in is shared, so that both take 4."""
    join = problem([1, 1, 1], [(0, [2], 2), (1, [2], 2)], [1, 1, 1])
    assert span(join, [0, 1, 2]) == pytest.approx(1 + 4 + 1)
    assert span(problem([1, 1, 1], [(0, [2], 2), (1, [2], 2)], [1, 1, 1], sharing="fifo"), [0, 1, 2]) == 1 + 4 + 1


def test_fair_rates_are_taken_again_when_a_transfer_ends():
    """3 ms and 1 ms from one server: both at half rate until 2, then the long one alone: ends at 4."""
    fork = problem([0, 1, 1], [(0, [1], 3), (0, [2], 1)], [1, 1, 1])
    a = placement_arrays(fork)
    ends = sorted(transfer.end_ms for transfer in simulated(a, np.array([0, 1, 2]), uniform_rates(a)).transfers)
    assert ends == pytest.approx([2.0, 4.0])


def test_static_rates_and_their_closed_forms():
    """Volumes 4 and 1 at once: proportional rates end both at 5 ms; square roots give 2 : 1."""
    fork = problem([0, 0, 0], [(0, [1], 4), (0, [2], 1)], [1, 1, 1], sharing="static")
    a = placement_arrays(fork)
    device = np.array([0, 1, 2])
    even = placement.rates_by_volume(a, device, 1.0)
    assert even[0, 1:] / 125_000 == pytest.approx([0.8, 0.2])
    assert placement.rates_by_volume(a, device, 0.5)[0, 1:] / 125_000 == pytest.approx([2 / 3, 1 / 3])
    assert span(fork, [0, 1, 2], rates=even / 125_000) == pytest.approx(5.0)
    assert span(fork, [0, 1, 2]) == pytest.approx(8.0)  # uniform: half each
    assert (within_links(a, 3 * even).sum(axis=1) <= a.network * (1 + 1e-12)).all()


def test_a_device_runs_the_ready_operator_of_least_priority_number():
    """Operators 0 and 1 are ready on one device, 1 feeds a long one elsewhere: the order decides."""
    fork = problem([2, 2, 5], [(1, [2], 0)], [1, 1])
    assert span(fork, [0, 0, 1], priority=[0, 1, 2]) == 9
    assert span(fork, [0, 0, 1], priority=[1, 0, 2]) == 7
    assert span(fork, [0, 0, 1]) == 7  # longest tail first


def test_operators_without_time_take_no_turn():
    """A source of zero time on a busy device does not wait for it."""
    fork = problem([9, 0, 1], [(1, [2], 1)], [1, 1])
    assert span(fork, [0, 0, 1]) == 9


def test_devices_of_a_server_have_a_link_of_their_own():
    """Ten times the rate inside, no contention: 10 ms become 1."""
    fork = problem([1, 1, 1], [(0, [1, 2], 10)], [3])
    assert span(fork, [0, 1, 2]) == pytest.approx(3.0)


def test_giving_up_early_never_hides_a_better_value():
    """The limited makespan is the makespan if that is within the limit, else inf."""
    fork = problem([1, 4, 3], [(0, [1], 2), (0, [2], 2)], [1, 1, 1])
    a, device = placement_arrays(fork), np.array([0, 1, 2])
    assert placement.makespan(a, device, uniform_rates(a), False, 9.0) == 9.0
    assert placement.makespan(a, device, uniform_rates(a), False, 8.9) == np.inf


def test_a_given_order_is_kept_even_if_it_waits():
    """Device 0 is told to run the consumer first: it idles until the input is there."""
    wait = problem([2, 1, 5], [(0, [1], 1)], [1, 1], sharing="none")
    a = placement_arrays(wait)
    result = ordered(a, np.array([1, 0, 0]), uniform_rates(a), np.array([0.0, 1.0, 2.0]))
    assert result.start_ms.tolist() == [0, 3, 4]
    assert result.makespan_ms == 9
    with pytest.raises(ValueError, match="contending"):
        ordered(placement_arrays(problem([1], [], [1])), np.array([0]), np.zeros((1, 1)), np.zeros(1))
