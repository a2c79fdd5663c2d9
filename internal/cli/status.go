// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Status asks whether registry-lb is ready, and what its directory knows.
func Status() Question {
	return Question{path: "api/v1/status", title: "status", read: readStatus}
}

func readStatus(a answer, now time.Time) (reading, bool) {
	got, ok := decode[statusAnswer](a)
	if !ok || a.code != http.StatusOK || got.Ready == nil {
		return reading{}, false
	}
	rows := [][]string{{"Ready", "yes"}}
	var verdict error
	if !*got.Ready {
		verdict = ErrNotReady
		rows = [][]string{{"Ready", "no: " + strings.Join(got.NotReady, "; ")}}
	}
	rows = append(rows,
		[]string{"Backends", got.Backends},
		[]string{"Directory", got.directory(now)},
		[]string{"Keys", strconv.Itoa(got.Keys)},
		[]string{"Checksum", got.TableChecksum},
	)
	for _, id := range slices.Sorted(maps.Keys(got.DuplicateIDs)) {
		rows = append(rows, []string{"Warning", fmt.Sprintf("%s have one SPIFFE ID: %s", strings.Join(got.DuplicateIDs[id], ", "), id)})
	}
	text := table(rows)
	if len(got.KeysByMember) > 0 {
		text += "\n" + got.keys()
	}
	return reading{text, verdict}, true
}

type statusAnswer struct {
	Backends     string         `json:"backends"`
	Ready        *bool          `json:"ready"`
	NotReady     []string       `json:"not_ready"`
	Keys         int            `json:"keys"`
	KeysByMember map[string]int `json:"keys_by_member"`
	Directory    struct {
		Synced      bool      `json:"synced"`
		Reason      string    `json:"reason"`
		LastListing time.Time `json:"last_listing"`
	} `json:"directory"`
	DuplicateIDs  map[string][]string `json:"duplicate_spiffe_ids"`
	TableChecksum string              `json:"table_checksum"`
}

// directory says how good the directory is.
func (s statusAnswer) directory(now time.Time) string {
	text := "in sync"
	switch {
	case s.Directory.Reason != "":
		text = s.Directory.Reason
	case !s.Directory.Synced:
		text = "not in sync"
	}
	if last := ago(s.Directory.LastListing, now); last != "" {
		text += ", last compared with the registries " + last
	}
	return text
}

// keys is a table of how many keys each member holds.
func (s statusAnswer) keys() string {
	rows := make([][]string, 0, 1+len(s.KeysByMember))
	rows = append(rows, []string{"MEMBER", "KEYS"})
	for _, name := range slices.Sorted(maps.Keys(s.KeysByMember)) {
		rows = append(rows, []string{name, strconv.Itoa(s.KeysByMember[name])})
	}
	return table(rows)
}
