"""What the test programs wrote down, and the comparison of what a library shows with it.

A comparison returns its differences as sentences; an empty list is agreement. Nothing is compared by way of libmqs's
own code: names, order and marks are worked out here once more.

Rooms: written, communicators, fields (of one operation), queues, collectives, partly.
"""
