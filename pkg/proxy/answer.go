// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// answer is how one attempt at a call ended.
type answer struct {
	header, trailer metadata.MD
	err             error
	// stale says that the call has to be repeated on new connections.
	stale bool
	// complete says that the member ended the call itself, with a trailer.
	complete bool
	// from is the member that was asked.
	from *member
}

// lost says that the member did not answer: all that is known is that the call did not get through, or that what
// carried its answer broke under it.
func (a *answer) lost() bool {
	if a.err == nil || a.complete {
		return false
	}
	code := status.Code(a.err)
	if code == codes.Internal {
		// gRPC's translation of HTTP's 400; but a request that gRPC can't send is Internal as well.
		return strings.HasPrefix(status.Convert(a.err).Message(), "unexpected HTTP status code received from server")
	}
	if slices.Contains([]codes.Code{
		// Refused, reset, closed by the peer.
		codes.Unavailable,
		// Closed by us, because the member left, or by the peer. Or by the caller: its context says so.
		codes.Canceled,
	}, code) {
		return true
	}
	// With a header it is a registry that listens there, and gRPC itself can't make anything of what it says.
	return len(a.header[contentType]) == 0 && slices.Contains([]codes.Code{
		// gRPC's translation of other HTTP statuses: what listens there is not a registry.
		codes.Unknown, codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated,
	}, code)
}

// streamEnd is the answer of a stream that ended with err.
func streamEnd(stream *memberStream, err error) answer {
	var a answer
	a.trailer = stream.Trailer()
	a.header, _ = stream.Header() // fails as the stream did
	a.complete = stream.ending.complete.Load()
	if !errors.Is(err, io.EOF) {
		a.err = err
	}
	return a
}

// contentType is in the header of each answer of a gRPC server (PROTOCOL-HTTP2.md, "Responses").
const contentType = "content-type"
