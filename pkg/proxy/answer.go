// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc"
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
	// from is the member that was asked.
	from *member
}

// answered says that the member gave a status of its own, or has begun to answer.
func (a *answer) answered() bool {
	return len(a.header[contentType]) > 0 || len(a.trailer[contentType]) > 0
}

// lost says that the member did not answer: all that is known is that the call did not get through. A status that
// the member gave itself always comes with gRPC's content type, in its header or, without a header, in its trailer
// (PROTOCOL-HTTP2.md, "Responses").
func (a *answer) lost() bool {
	if a.err == nil || a.answered() {
		return false
	}
	code := status.Code(a.err)
	if code == codes.Internal {
		// gRPC's translation of HTTP's 400; but a request that gRPC can't send is Internal as well.
		return strings.HasPrefix(status.Convert(a.err).Message(), "unexpected HTTP status code received from server")
	}
	return slices.Contains([]codes.Code{
		// Refused, reset, closed by the peer.
		codes.Unavailable,
		// Closed by us, because the member left, or by the peer. Or by the caller: its context says so.
		codes.Canceled,
		// gRPC's translation of other HTTP statuses: what listens there is not a registry.
		codes.Unknown, codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated,
	}, code)
}

// streamEnd is the answer of a stream that ended with err.
func streamEnd(stream grpc.ClientStream, err error) answer {
	var a answer
	a.trailer = stream.Trailer()
	a.header, _ = stream.Header() // fails as the stream did
	if errors.Is(err, io.EOF) {
		return a
	}
	a.err = err
	// Once there is a header, gRPC does not tell a broken connection from a status without trailers. Only a member
	// gives details. In doubt it was the connection: asking elsewhere does no harm here, for Find changes nothing.
	if status.Code(err) == codes.Unavailable && a.trailer.Len() == 0 && len(status.Convert(err).Details()) == 0 {
		a.header = nil
	}
	return a
}

const contentType = "content-type"
