"""The modelled database: every statement of the protocol over one set of tables."""

from sexton.torture.simulate.cluster_tables import ClusterTables
from sexton.torture.simulate.fire_tables import FireTables
from sexton.torture.simulate.job_tables import JobTables


class Database(ClusterTables, FireTables, JobTables):
    """In memory and serializable; each method that is a statement names its SQL file."""
