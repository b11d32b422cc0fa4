//! Feeds Envoy: a plan becomes listeners, clusters and endpoints, served by aggregated discovery.
