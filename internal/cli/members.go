// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Members asks who the members are.
func Members() Question {
	return Question{path: "api/v1/members", title: "members", read: readMembers}
}

func readMembers(a answer, now time.Time) (reading, bool) {
	type member struct {
		Name      string    `json:"name"`
		Addresses []string  `json:"addresses"`
		Node      string    `json:"node"`
		Zone      string    `json:"zone"`
		State     string    `json:"state"`
		Since     time.Time `json:"since"`
		Reason    string    `json:"reason"`
		RingShare float64   `json:"ring_share"`
		Keys      int       `json:"keys"`
		InFlight  int64     `json:"in_flight"`
	}
	got, ok := decode[struct {
		Backends string   `json:"backends"`
		Members  []member `json:"members"`
	}](a)
	if !ok || a.code != http.StatusOK || got.Members == nil {
		return reading{}, false
	}
	if len(got.Members) == 0 {
		return reading{text: fmt.Sprintf("There is no member at %s.\n", escape(got.Backends))}, true
	}
	rows := [][]string{{"NAME", "STATE", "SINCE", "SHARE", "KEYS", "IN-FLIGHT", "ADDRESSES", "NODE", "ZONE", "REASON"}}
	for _, m := range got.Members {
		rows = append(rows, []string{
			m.Name, m.State, ago(m.Since, now), fmt.Sprintf("%.1f%%", 100*m.RingShare), strconv.Itoa(m.Keys),
			strconv.FormatInt(m.InFlight, 10), strings.Join(m.Addresses, ","), m.Node, m.Zone, m.Reason,
		})
	}
	return reading{text: table(rows)}, true
}
