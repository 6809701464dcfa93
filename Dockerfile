# Two images from binaries that "make build" has put into dist/: no RUN step, so
# that buildah and docker build them offline and for any platform.
#
#   make build && buildah build --platform linux/amd64 --target relay   -t moq-relay .
#   make build && buildah build --platform linux/amd64 --target manager -t moq-relay-operator .

FROM scratch AS base
COPY dist/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
# The user owns nothing and has no name: the root file system is read-only anyway.
USER 65532:65532

FROM base AS manager
ARG TARGETARCH=amd64
ARG VERSION=unknown
LABEL org.opencontainers.image.title="moq-relay-operator" \
      org.opencontainers.image.description="Kubernetes operator for Media-over-QUIC relays" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY dist/linux/${TARGETARCH}/manager /manager
ENTRYPOINT ["/manager"]

FROM base AS relay
ARG TARGETARCH=amd64
ARG VERSION=unknown
LABEL org.opencontainers.image.title="moq-relay" \
      org.opencontainers.image.description="Media-over-QUIC relay" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY dist/linux/${TARGETARCH}/moq-relay /moq-relay
EXPOSE 4443/udp 4443/tcp 9090/tcp
ENTRYPOINT ["/moq-relay"]
CMD ["serve"]
