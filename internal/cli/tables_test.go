// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/internal/admin"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

func TestTables(t *testing.T) {
	since := past(49)
	members := []admin.Member{
		{
			Name: "registry-k8s-0", UID: "u", State: admin.Live, Since: past(49), Reason: "ready", RingShare: 1. / 3, Keys: 1203, InFlight: 2,
			Addresses: []string{"10.0.0.1:5002", "[fd00::1]:5002"}, Node: "node-a", Zone: "z1", SpiffeID: "spiffe://td/x",
		},
		{Name: "evil\x1b[2J\tname\u202e\n", State: admin.Left, Reason: "gone"},
	}
	for _, row := range []struct {
		because  string
		view     view
		question Question
		want     []string
		verdict  error
		says     string
	}{
		{
			because: "members are in columns, and without anything that a terminal obeys",
			view:    view{members: members}, question: Members(),
			want: []string{
				`NAME                           STATE  SINCE     SHARE  KEYS  IN-FLIGHT  ADDRESSES                     NODE    ZONE  REASON`,
				`evil\x1b[2J\x09name\u202e\x0a  left   -         0.0%   0     0          -                             -       -     gone`,
				`registry-k8s-0                 live   2d1h ago  33.3%  1203  2          10.0.0.1:5002,[fd00::1]:5002  node-a  z1    ready`,
			},
		},
		{
			because: "there may be none", question: Members(),
			want: []string{"There is no member at static://a:1."},
		},
		{
			because: "a holder has times",
			view: view{keys: map[shard.Key]admin.Location{
				shard.NSEKey("nse-17"): {Member: "registry-0", Reason: "holder", Since: since, Expires: past(-4)},
			}},
			question: Locate(shard.NSE, "nse-17"),
			want: []string{
				`NSE     MEMBER      REASON  SINCE                            EXPIRES`,
				`nse-17  registry-0  holder  ` + since.UTC().Format(time.RFC3339) + ` (2d1h ago)  in 3h58m`,
			},
		},
		{
			because:  "since when may not be known, and it may have expired",
			view:     view{keys: map[shard.Key]admin.Location{shard.NSEKey("a"): {Member: "registry-0", Reason: "holder", Expires: past(3)}}},
			question: Locate(shard.NSE, "a"),
			want: []string{
				`NSE  MEMBER      REASON  SINCE      EXPIRES`,
				`a    registry-0  holder  not known  3h1m ago`,
			},
		},
		{
			because:  "by the ring nobody holds it, and names need not be plain",
			view:     view{keys: map[shard.Key]admin.Location{shard.NSKey("a b+c&d/ü\x7f"): {Member: "registry-0", Reason: "ring"}}},
			question: Locate(shard.NS, "a b+c&d/ü\x7f"),
			want: []string{
				`NS             MEMBER      REASON  SINCE  EXPIRES`,
				`a b+c&d/ü\x7f  registry-0  ring    -      -`,
			},
		},
		{
			because: "without a member there is nothing to show", question: Locate(shard.NSE, "a"),
			verdict: ErrNoMember, says: "nobody serves it: there is no member at static://a:1",
		},
		{
			because: "status of one that is ready",
			view: view{status: admin.Status{
				DirectorySynced: true, LastListing: past(3), Keys: 3, KeysByMember: map[string]int{"b": 2, "a": 1}, TableChecksum: 0xabc,
				DuplicateIDs: map[string][]string{"spiffe://td/x": {"a", "b"}},
			}},
			question: Status(),
			want: []string{
				`Ready      yes`,
				`Backends   static://a:1`,
				`Directory  in sync, last compared with the registries 3h1m ago`,
				`Keys       3`,
				`Checksum   0000000000000abc`,
				`Warning    a, b have one SPIFFE ID: spiffe://td/x`,
				``,
				`MEMBER  KEYS`,
				`a       1`,
				`b       2`,
			},
		},
		{
			because:  "status of one that is not",
			view:     view{notReady: []string{"no certificate", "members are not\rknown"}, status: admin.Status{DirectoryReason: "a listing is missing"}},
			question: Status(),
			want: []string{
				`Ready      no: no certificate; members are not\x0dknown`,
				`Backends   static://a:1`,
				`Directory  a listing is missing`,
				`Keys       0`,
				`Checksum   0000000000000000`,
			},
			verdict: ErrNotReady, says: "registry-lb is not ready",
		},
	} {
		t.Run(row.because, func(t *testing.T) {
			got := show(t.Context(), Options{Target: serve(t, newHandler(&row.view)), Output: Table}, row.question)
			require.Equal(t, strings.Join(row.want, "\n"), strings.TrimSuffix(got.out, "\n"))
			require.Empty(t, got.err)
			require.ErrorIs(t, got.failure, row.verdict)
			if row.says != "" {
				require.EqualError(t, got.failure, row.says)
			}
		})
	}
}

func TestJSONIsWhatTheAPIAnswers(t *testing.T) {
	const evil = "evil\x1b[2J\u009b\u202e\U000e0001 <&> ü\xff"
	h := newHandler(&view{
		members:  []admin.Member{{Name: evil, State: admin.Live, Reason: "ready"}},
		notReady: []string{evil},
		keys:     map[shard.Key]admin.Location{shard.NSEKey("a"): {Member: evil, Reason: "ring"}},
	})
	target := serve(t, h)
	for _, row := range []struct {
		path     string
		question Question
		verdict  error
	}{
		{"/api/v1/members", Members(), nil},
		{"/api/v1/status", Status(), ErrNotReady},
		{"/api/v1/locate?nse=a", Locate(shard.NSE, "a"), nil},
		{"/api/v1/locate?nse=b", Locate(shard.NSE, "b"), ErrNoMember},
	} {
		t.Run(row.path, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target.String()+row.path, http.NoBody)
			require.NoError(t, err)
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			defer response.Body.Close()
			defer http.DefaultClient.CloseIdleConnections()
			want, err := io.ReadAll(response.Body)
			require.NoError(t, err)

			got := show(t.Context(), Options{Target: target, Output: JSON}, row.question)
			require.ErrorIs(t, got.failure, row.verdict)
			require.Empty(t, got.err)
			require.JSONEq(t, string(want), got.out)
			require.Equal(t, 1, strings.Count(got.out, "\n"), "a line")
			require.True(t, isHarmless(strings.TrimSuffix(got.out, "\n")), "%q", got.out)
			require.True(t, json.Valid([]byte(got.out)))
		})
	}
}
