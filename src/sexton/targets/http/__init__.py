"""Jobs that are delivered as an HTTP request to an endpoint of somebody's own.

What stands here is for everybody; the rest brings a library along, and is imported by who delivers.
"""

PREFIX = "http:"  # of the tasks that stand for endpoints: http:<id>
QUEUE = "http"
