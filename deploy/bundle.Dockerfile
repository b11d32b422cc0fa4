# The bundle's image: docker build -f deploy/bundle.Dockerfile deploy
# Generated from deploy/chart and deploy/samples by `cargo xtask crds`; change those.
FROM scratch
LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=causeway
LABEL operators.operatorframework.io.bundle.channels.v1=candidate
LABEL operators.operatorframework.io.bundle.channel.default.v1=candidate
COPY bundle/manifests /manifests/
COPY bundle/metadata /metadata/
