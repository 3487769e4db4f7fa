"""The harness for tests in any language: what `kohort.testing` has, over HTTP and JSON.

Read endpoints first: the whole table, of which the document and the docs are made.

    endpoints      all endpoints, in their order
      cluster      the broker as a whole, its clock
      topics       topics and their records
      groups       groups: what they are, barriers
      choreography what a test makes a group do
      puppets      scripted members
      life         nodes, crashes, snapshots
      faults       what a test does to requests
      history      what happened
    endpoint       one line of the table: a function, its docstring, its parameters
    fields         what may be given, as JSON Schema, and checked by it
    words          things of the harness as JSON
    control        a Kafka, and what one request began and another ends
    app            HTTP in, JSON out: finds the endpoint, tells errors
    server         a socket, and a thread of its own
    openapi        the document, made of the table
    page           the same, for people

Only app and server need the extra `console` (Starlette, uvicorn).
"""
