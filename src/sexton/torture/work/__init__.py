"""What the cluster under torture is given to do, and the notes that everybody takes of it.

    app          tasks that succeed, fail, hang, block, burn and kill, each with its lines
    sink         an HTTP endpoint that does the same, and checks who is calling
    population   thousands of schedules from a seed, with how to compute their fires
    prepare      tenants, keys, endpoints, calendars and the population, in a fresh database
    clients      processes that enqueue: python, sql, api, flood; and a remote worker
    operators    processes that pause, edit, trigger, backfill, cancel and redrive

Every process reads TORTURE_FOLDER (the run's folder), TORTURE_NAME (what it is called there) and
TORTURE_CLOCK_US (the real clock minus the monotonic one); beside them the settings of Sexton.
"""
