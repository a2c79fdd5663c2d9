# SPDX-License-Identifier: Apache-2.0
#
# docker build -t registry-lb .                       builds the binary in a container
# docker build --target prebuilt -t registry-lb .     takes bin/registry-lb, which `make build` makes

# There is nothing in the image but the binary, which is static. It needs no certificates of public authorities: it
# trusts those of SPIFFE and of its cluster alone.
FROM scratch AS base
USER 65532:65532
EXPOSE 5002 9090
ENTRYPOINT ["/registry-lb"]

FROM base AS prebuilt
COPY bin/registry-lb /registry-lb

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /registry-lb ./cmd/registry-lb

FROM base
COPY --from=build /registry-lb /registry-lb
