"""A scheduler that cannot be reached over TLS is an error of ours, with what to set."""

import pytest

from fedsvd.engine.cluster import Cluster
from fedsvd.errors import ConfigError

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")


def test_a_scheduler_over_tls_without_certificates_is_refused_with_the_settings_it_needs():
    with pytest.raises(ConfigError, match=r"certificates.*ca-file"):
        Cluster.open("tls://127.0.0.1:9")


def test_certificates_that_are_not_there_are_refused_by_an_error_of_ours(tmp_path):
    absent = str(tmp_path / "absent.pem")
    names = {"distributed.comm.tls.ca-file": absent}
    names |= {f"distributed.comm.tls.client.{part}": absent for part in ("cert", "key")}
    with dask.config.set(names), pytest.raises(ConfigError, match="cannot be reached"):
        Cluster.open("tls://127.0.0.1:9")
