// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// Locate asks which member a call about the name goes to.
func Locate(space shard.Space, name string) Question {
	return Question{
		path:  "api/v1/locate",
		query: url.Values{space.String(): {name}},
		title: "the member of " + name,
		read:  func(a answer, now time.Time) (reading, bool) { return readLocation(space, a, now) },
	}
}

func readLocation(space shard.Space, a answer, now time.Time) (reading, bool) {
	if a.code == http.StatusServiceUnavailable {
		text, ok := refusal(a)
		return reading{verdict: fmt.Errorf("%w: %s", ErrNoMember, oneLine(text))}, ok
	}
	got, ok := decode[struct {
		Key     string    `json:"key"`
		Member  string    `json:"member"`
		Reason  string    `json:"reason"`
		Since   time.Time `json:"since"`
		Expires time.Time `json:"expires"`
	}](a)
	if !ok || a.code != http.StatusOK || got.Member == "" {
		return reading{}, false
	}
	title := "NSE"
	if space == shard.NS {
		title = "NS"
	}
	return reading{text: table([][]string{
		{title, "MEMBER", "REASON", "SINCE", "EXPIRES"},
		{got.Key, got.Member, got.Reason, since(got.Reason, got.Since, now), due(got.Expires, now)},
	})}, true
}

// since says since when a member holds a key. One to which the key goes for another reason does not hold it.
func since(reason string, t, now time.Time) string {
	switch {
	case reason != string(shard.ReasonHolder):
		return ""
	case t.IsZero():
		return "not known"
	default:
		return fmt.Sprintf("%s (%s)", t.UTC().Format(time.RFC3339), ago(t, now))
	}
}
