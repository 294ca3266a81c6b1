"""The engine of events: time goes from event to event; how links are shared is exchangeable.

`loop.run` is the loop that all time models go round. It is compiled anew for each of them with the pieces they give it:
what happens on the links by itself (nothing where a link serves in order of arrival, flows that run dry where rates are
shared), and what an event does. `tasks` has what they do alike with a task graph: compute on devices, release of
successors, jobs that begin again. `queue` holds the events, `max_min` the rates of flows that share links.
"""
