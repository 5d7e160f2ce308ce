"""Tests of FedSVD; a package, because a development dependency installs a package ``tests`` of its own."""
