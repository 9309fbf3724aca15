# An image of the command bullmq, which has nothing else in it:
#
#	docker build --build-arg VERSION=1.2.3 -t bullmq .
#	docker run --rm -e REDIS_URL=redis://redis.example.org:6379 bullmq queues
#	docker run --rm -p 3000:3000 -e REDIS_URL=redis://redis.example.org:6379 -e BULLMQ_DASHBOARD_PASSWORD bullmq dashboard --listen :3000
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH VERSION=unknown
WORKDIR /src
COPY . .
RUN cd cmd/bullmq && CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -ldflags="-s -w -X main.release=$VERSION" -o /out/bullmq .

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/bullmq /usr/local/bin/bullmq
USER nonroot:nonroot
ENTRYPOINT ["/usr/local/bin/bullmq"]
