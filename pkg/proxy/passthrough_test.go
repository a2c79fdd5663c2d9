// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

// outcome is all that a client gets to know of a call.
type outcome struct {
	responses       []proto.Message
	header, trailer metadata.MD
	err             error
}

// operation is one thing that a client does.
type operation struct {
	name string
	do   func(ctx context.Context, f flavour, cc *grpc.ClientConn) outcome
}

// operationsOn are all that clients do with a name, and what they do without one.
func operationsOn(name string) []operation {
	unary := func(ctx context.Context, f flavour, cc *grpc.ClientConn, method string, resp proto.Message) (o outcome) {
		o.err = cc.Invoke(ctx, f.method(method), f.item(name), resp, grpc.Header(&o.header), grpc.Trailer(&o.trailer))
		if o.err == nil {
			o.responses = []proto.Message{resp}
		}
		return o
	}
	find := func(name string, watch bool) func(ctx context.Context, f flavour, cc *grpc.ClientConn) outcome {
		return func(ctx context.Context, f flavour, cc *grpc.ClientConn) (o outcome) {
			s, err := f.find(ctx, cc, f.query(name, watch))
			if err != nil {
				o.err = err
				return o
			}
			o.responses, o.err = s.all()
			o.header, _ = s.Header()
			o.trailer = s.Trailer()
			return o
		}
	}
	return []operation{
		{"Register", func(ctx context.Context, f flavour, cc *grpc.ClientConn) outcome {
			return unary(ctx, f, cc, "Register", f.emptyItem())
		}},
		{"Unregister", func(ctx context.Context, f flavour, cc *grpc.ClientConn) outcome {
			return unary(ctx, f, cc, "Unregister", new(emptypb.Empty))
		}},
		{"list by name", find(name, false)},
		{"list of all", find("", false)},
		{"watch by name", find(name, true)},
		{"watch of all", find("", true)},
	}
}

// operations are those on a name that does not matter.
func operations() []operation { return operationsOn("name") }

// isList says whether an operation is a Find without watch.
func (o operation) isList() bool { return strings.HasPrefix(o.name, "list") }

func (o operation) isUnary() bool { return strings.HasSuffix(o.name, "egister") }

// eachOperation runs test for each operation of both services.
func eachOperation(t *testing.T, test func(t *testing.T, f flavour, op operation)) {
	t.Helper()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		for _, op := range operations() {
			t.Run(op.name, func(t *testing.T) {
				t.Parallel()
				test(t, f, op)
			})
		}
	})
}

// answerOf is a message as the member would answer c with.
func answerOf(c *call) proto.Message {
	switch c.method {
	case "Register":
		return c.flavour.item("name")
	case "Unregister":
		return new(emptypb.Empty)
	default:
		return c.flavour.response(c.flavour.item("name"), false)
	}
}

func TestRequestMetadataPassesUnchanged(t *testing.T) {
	t.Parallel()
	sent := metadata.MD{
		"one":       {"1"},
		"twice":     {"b", "a", "b"},
		"raw-bin":   {"\x00\xff\n", "", "\x80"},
		"empty":     {""},
		"nsm-token": {"header.payload.signature"},
	}
	for _, key := range []string{"big-a", "big-b", "big-c", "big-d"} {
		sent[key] = []string{strings.Repeat(key[4:], 16<<10)} // 64 KB in total
	}
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		m := startScripted(t, "a")
		got := make(chan metadata.MD, 1)
		m.set(func(c *call) error {
			md, _ := metadata.FromIncomingContext(c.Context())
			got <- md
			return status.Error(codes.NotFound, "enough seen")
		})
		front := startFront(t, proxy.Options{}, m.Member)
		o := op.do(metadata.NewOutgoingContext(within(t), sent.Copy()), f, front.cc)
		requireCode(t, codes.NotFound, o.err)
		through := await(t, got, "the call")

		// What the member sees is what it sees of a client without a proxy.
		o = op.do(metadata.NewOutgoingContext(within(t), sent.Copy()), f, dial(t, m.Addrs[0]))
		requireCode(t, codes.NotFound, o.err)
		direct := await(t, got, "the direct call")
		delete(through, ":authority")
		delete(direct, ":authority")
		delete(direct, "grpc-accept-encoding")
		delete(through, "grpc-accept-encoding")
		require.Equal(t, direct, through)
		require.Subset(t, through, sent)
	})
}

// detailed is an error as only a member would give it.
func detailed(code codes.Code) error {
	s, err := status.New(code, "the member's own words: ä/%\n").WithDetails(durationpb.New(time.Minute))
	if err != nil {
		panic(err)
	}
	return s.Err()
}

// own drops from md what gRPC adds.
func own(md metadata.MD) metadata.MD {
	md = md.Copy()
	delete(md, "content-type")
	delete(md, "grpc-status-details-bin")
	if len(md) == 0 {
		return nil
	}
	return md
}

func TestAnswersPassUnchanged(t *testing.T) {
	t.Parallel()
	header := metadata.MD{"path": {"h1", "h2"}, "raw-bin": {"\x00\xff"}, "big": {strings.Repeat("x", 64<<10)}}
	trailer := metadata.MD{"tail": {"t1", "t2"}, "tail-bin": {"\xff"}}
	rows := []struct {
		name   string
		script script
	}{
		{"success with header and trailer", func(c *call) error {
			_ = c.SetHeader(header)
			c.SetTrailer(trailer)
			return c.SendMsg(answerOf(c))
		}},
		{"success without anything", func(c *call) error { return c.SendMsg(answerOf(c)) }},
		{"trailers only", func(*call) error { return detailed(codes.NotFound) }},
		{"trailers only, with metadata", func(c *call) error {
			c.SetTrailer(trailer)
			return detailed(codes.Unavailable)
		}},
		{"header and trailer with an error", func(c *call) error {
			_ = c.SetHeader(header)
			c.SetTrailer(trailer)
			return detailed(codes.FailedPrecondition)
		}},
		{"error after the header", func(c *call) error {
			_ = c.SendHeader(header)
			return detailed(codes.PermissionDenied)
		}},
		{"error after a message", func(c *call) error {
			_ = c.SendHeader(header)
			_ = c.SendMsg(answerOf(c))
			c.SetTrailer(trailer)
			return detailed(codes.InvalidArgument)
		}},
		{"error after a header without anything in it", func(c *call) error {
			_ = c.SendHeader(nil)
			return detailed(codes.OutOfRange)
		}},
	}
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		for _, store := range op.stores() {
			m := startScripted(t, "a")
			front := startFront(t, proxy.Options{Store: store}, m.Member)
			direct := dial(t, m.Addrs[0])
			for _, row := range rows {
				m.set(row.script)
				ctx := within(t)
				if !op.isUnary() && !op.isList() && strings.HasPrefix(row.name, "success") {
					// The end of a watch is no success: see TestWatchNeverEndsWithEOF.
					continue
				}
				want, got := op.do(ctx, f, direct), op.do(ctx, f, front.cc)
				require.Equal(t, status.Convert(want.err).Proto().String(), status.Convert(got.err).Proto().String(), row.name)
				require.Equal(t, own(want.header), own(got.header), row.name)
				require.Equal(t, own(want.trailer), own(got.trailer), row.name)
				if op.isList() && want.err != nil {
					want.responses = nil // an error comes alone: see TestListIsReadWhole
				}
				require.Len(t, got.responses, len(want.responses), row.name)
				for i := range want.responses {
					require.True(t, proto.Equal(want.responses[i], got.responses[i]), row.name)
				}
			}
		}
	})
}

func TestEveryCodePassesUnchanged(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		members := startScripteds(t, "a", "b")
		front := startFront(t, proxy.Options{}, describe(members)...)
		for code := codes.Canceled; code <= codes.Unauthenticated+1; code++ {
			for _, m := range members {
				m.set(func(*call) error { return detailed(code) })
			}
			before := members["a"].calls() + members["b"].calls()
			o := op.do(within(t), f, front.cc)
			require.Equal(t, status.Convert(detailed(code)).Proto().String(), status.Convert(o.err).Proto().String())
			require.Equal(t, before+1, members["a"].calls()+members["b"].calls(), "%v was tried again", code)
		}
	})
}

func TestDeadlinePasses(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		m := startScripted(t, "a")
		seen := make(chan time.Time, 1)
		m.set(func(c *call) error {
			deadline, _ := c.Context().Deadline()
			seen <- deadline
			return status.Error(codes.NotFound, "enough seen")
		})
		front := startFront(t, proxy.Options{}, m.Member)
		deadline := time.Now().Add(37 * time.Second)
		ctx, cancel := context.WithDeadline(t.Context(), deadline)
		defer cancel()
		op.do(ctx, f, front.cc)
		require.WithinDuration(t, deadline, await(t, seen, "the call"), time.Second)
	})
}

func TestDeadlineExceeded(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		m := startScripted(t, "a")
		m.set((*call).untilDone)
		front := startFront(t, proxy.Options{}, m.Member)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		requireCode(t, codes.DeadlineExceeded, op.do(ctx, f, front.cc).err)
		require.LessOrEqual(t, m.calls(), 1)
	})
}

func TestCancellationReachesTheMember(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		m := startScripted(t, "a")
		began, ended := make(chan struct{}), make(chan error, 1)
		m.set(func(c *call) error {
			close(began)
			err := c.untilDone()
			ended <- err
			return err
		})
		registry := prometheus.NewPedanticRegistry()
		front := startFront(t, proxy.Options{Registerer: registry}, m.Member)
		ctx, cancel := context.WithCancel(within(t))
		go func() {
			select {
			case <-began:
			case <-ctx.Done():
			}
			cancel()
		}()
		requireCode(t, codes.Canceled, op.do(ctx, f, front.cc).err)
		requireCode(t, codes.Canceled, await(t, ended, "the end at the member"))
		eventuallyCounted(t, registry, f, "Canceled", 1)
		require.Equal(t, 1, m.calls())
	})
}

func TestCancellationWhileThereIsNoMember(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		for _, store := range op.stores() {
			registry := prometheus.NewPedanticRegistry()
			waiting := make(chan struct{}, 1)
			front := startFront(t, proxy.Options{
				Registerer: registry, NoBackendWait: time.Hour, Store: store, Clock: newSignallingClock(waiting),
			})
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan outcome, 1)
			go func() { result <- op.do(ctx, f, front.cc) }()
			await(t, waiting, "a call that waits")
			cancel()
			requireCode(t, codes.Canceled, await(t, result, "the end").err)
			eventuallyCounted(t, registry, f, "Canceled", 1)
		}
	})
}

// sized is an item that takes size bytes on the wire. Most of it is in a field of raw bytes, which costs less time than a
// string.
func sized(f flavour, size int) proto.Message {
	item := f.item("name")
	if nse, ok := item.(*registry.NetworkServiceEndpoint); ok {
		// Otherwise it grows on its way.
		nse.ExpirationTime = timestamppb.Now()
	}
	const overhead = 7 // tag and length
	raw := protowire.AppendTag(nil, 9999, protowire.BytesType)
	raw = protowire.AppendBytes(raw, make([]byte, size-proto.Size(item)-overhead))
	item.ProtoReflect().SetUnknown(raw)
	if proto.Size(item) != size {
		panic(fmt.Sprintf("%d bytes instead of %d", proto.Size(item), size))
	}
	return item
}

func TestMessageSizes(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		m := startScripted(t, "a")
		front := startFront(t, proxy.Options{}, m.Member)
		small := f.item("name")
		fits, tooLarge := sized(f, proxy.MaxMessageSize), sized(f, proxy.MaxMessageSize+1)

		resp, err := f.register(within(t), front.cc, fits)
		require.NoError(t, err, "16 MiB both ways")
		require.True(t, proto.Equal(fits, resp))
		calls := m.calls()
		_, err = f.register(within(t), front.cc, tooLarge)
		requireCode(t, codes.ResourceExhausted, err)
		require.Equal(t, calls, m.calls())

		m.set(func(c *call) error { return c.SendMsg(tooLarge) })
		_, err = f.register(within(t), front.cc, small)
		requireCode(t, codes.ResourceExhausted, err)
		require.Equal(t, calls+1, m.calls(), "tried again")

		overhead := proto.Size(f.response(fits, false)) - proxy.MaxMessageSize
		m.set(func(c *call) error { return c.SendMsg(f.response(sized(f, proxy.MaxMessageSize-overhead), false)) })
		list, err := f.list(within(t), front.cc, f.query("name", false))
		require.NoError(t, err)
		require.Len(t, list, 1)
		m.set(func(c *call) error { return c.SendMsg(f.response(sized(f, proxy.MaxMessageSize-overhead+1), false)) })
		_, err = f.list(within(t), front.cc, f.query("name", false))
		requireCode(t, codes.ResourceExhausted, err)
	})
}

// withUnknown adds a field to m that this version of the API does not know.
func withUnknown[M proto.Message](m M) M {
	raw := protowire.AppendTag(nil, 9999, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendString(raw, "from the future"))
	return m
}

func unknownOf(m proto.Message) string { return string(m.ProtoReflect().GetUnknown()) }

func TestUnknownFieldsAreKept(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		m := startScripted(t, "a")
		front := startFront(t, proxy.Options{}, m.Member)
		want := unknownOf(withUnknown(f.item("")))
		asked := make(chan string, 1)
		m.set(func(c *call) error {
			asked <- unknownOf(c.request)
			return c.SendMsg(withUnknown(answerOf(c)))
		})
		resp, err := f.register(within(t), front.cc, withUnknown(f.item("name")))
		require.NoError(t, err)
		require.Equal(t, want, <-asked)
		require.Equal(t, want, unknownOf(resp))

		empty, err := f.unregister(within(t), front.cc, withUnknown(f.item("name")))
		require.NoError(t, err)
		require.Equal(t, want, <-asked)
		require.Equal(t, want, unknownOf(empty))

		list, err := f.list(within(t), front.cc, withUnknown(f.query("name", false)))
		require.NoError(t, err)
		require.Equal(t, want, <-asked)
		require.Len(t, list, 1)
		require.Equal(t, want, unknownOf(list[0]))

		s, err := f.find(within(t), front.cc, withUnknown(f.query("name", true)))
		require.NoError(t, err)
		event, err := s.recv()
		require.NoError(t, err)
		require.Equal(t, want, await(t, asked, "the watch"))
		require.Equal(t, want, unknownOf(event))
	})
}

// TestGzipRequests speaks gRPC by hand: a client made with grpc-go would register the compressor that the server needs.
func TestGzipRequests(t *testing.T) {
	t.Parallel()
	m := startScripted(t, "a")
	front := startFront(t, proxy.Options{}, m.Member)
	f := nseFlavour()

	message, err := proto.Marshal(f.itemWith("name", strings.Repeat("x", 10_000)))
	require.NoError(t, err)
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	_, _ = w.Write(message)
	require.NoError(t, w.Close())
	body := binary.BigEndian.AppendUint32([]byte{1}, uint32(compressed.Len()))
	body = append(body, compressed.Bytes()...)

	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, "http://"+front.addr+f.method("Register"), bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	req.Header.Set("Grpc-Encoding", "gzip")
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	got := resp.Trailer.Get("Grpc-Status")
	require.Equal(t, "0", got, "%v %v", resp.Header, resp.Trailer)
	require.Equal(t, 1, m.calls())
}

func TestListIsReadWhole(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		for _, name := range []string{"", "name"} {
			for _, store := range []proxy.Store{proxy.SharedStore, proxy.PartitionedStore} {
				m := startScripted(t, "a")
				front := startFront(t, proxy.Options{Store: store}, m.Member)
				m.set(func(c *call) error {
					for range 100 {
						if err := c.SendMsg(f.response(f.item("name"), false)); err != nil {
							return err
						}
					}
					return detailed(codes.Unavailable)
				})
				list, err := f.list(within(t), front.cc, f.query(name, false))
				require.Equal(t, status.Convert(detailed(codes.Unavailable)).Proto().String(), status.Convert(err).Proto().String())
				require.Empty(t, list)
				require.Equal(t, 1, m.calls())
			}
		}
	})
}

func TestListLostInTheMiddleIsAnsweredByAnother(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		members := startScripteds(t, "a", "b")
		front := startFront(t, proxy.Options{}, describe(members)...)
		for name, m := range members {
			m.set(func(c *call) error { return c.SendMsg(f.response(f.item("from-"+name), false)) })
		}
		first := front.nameAt(t, f, "a", "x")
		members["a"].set(func(c *call) error {
			_ = c.SendMsg(f.response(f.item("half an answer"), false))
			go members["a"].kill()
			return c.untilDone()
		})
		list, err := f.list(within(t), front.cc, f.query(first, false))
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, "from-b", nameOf(list[0]))
	})
}

// TestPingingClientIsNotCutOff pings by hand, because grpc-go has no client that pings more often than every 10 s. One
// that pings every 5 s, a little early now and then, must not be cut off: so pings every 1.1 s are fine, too.
func TestPingingClientIsNotCutOff(t *testing.T) {
	t.Parallel()
	front := startFront(t, proxy.Options{})
	c := dialTCP(t, front.addr)
	_, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	require.NoError(t, err)

	const (
		ping   = 6
		goAway = 7
		pings  = 6
	)
	frames := make(chan byte, 100)
	go func() {
		defer close(frames)
		header := make([]byte, 9)
		for {
			if _, err := io.ReadFull(c, header); err != nil {
				return
			}
			length := int64(header[0])<<16 | int64(header[1])<<8 | int64(header[2])
			if _, err := io.CopyN(io.Discard, c, length); err != nil {
				return
			}
			frames <- header[3]
		}
	}()
	// The server counts from when it handles a ping, which is when it answers: a ticker would let pings queue up on a
	// busy machine, and be handled in one go.
	next := time.NewTimer(0)
	defer next.Stop()
	for sent, acked := 0, 0; acked < pings; {
		select {
		case <-next.C:
			sent++
			_, err := io.WriteString(c, "\x00\x00\x08\x06\x00\x00\x00\x00\x00"+"12345678")
			require.NoError(t, err)
		case kind, ok := <-frames:
			require.True(t, ok, "cut off after %d pings", sent)
			require.NotEqual(t, byte(goAway), kind, "told to go away after %d pings", sent)
			if kind == ping {
				acked++
				next.Reset(1100 * time.Millisecond)
			}
		}
	}
}

func TestWatchNeverEndsWithEOF(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		m := startScripted(t, "a")
		front := startFront(t, proxy.Options{}, m.Member)
		m.set(func(c *call) error { return c.SendMsg(f.response(f.item("name"), false)) })
		s, err := f.find(within(t), front.cc, f.query("name", true))
		require.NoError(t, err)
		list, err := s.all()
		requireCode(t, codes.Unavailable, err)
		require.NotErrorIs(t, err, io.EOF)
		require.Len(t, list, 1)
	})
}
