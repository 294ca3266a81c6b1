"""The independent checker: violations of solutions, and lower bounds that none can beat; one folder a kind.

Shares no code with what it checks: it rebuilds everything from the plain fields of `topoopt.core`. What a bound needs
besides (multipliers, cuts, lists of networks) is handed in as data, and holds whoever found it.
"""
