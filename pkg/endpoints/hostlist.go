// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// parseHostList reads a members file: a host:port a line, `#` starts a comment, blank lines do not count, a byte order
// mark and CRLF are accepted. It returns the addresses in the order of the file, each once: saying a thing twice does no
// harm, and refusing the file would hold back the other changes in it. The error is one line with the first bad lines as
// path:number.
func parseHostList(path string, content []byte) ([]string, error) {
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	var addrs []string
	var faults []error
	seen := make(map[string]bool)
	number := 0
	for line := range bytes.Lines(content) {
		number++
		text, _, _ := strings.Cut(string(line), "#")
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		addr, err := parseAddress(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %w", path, number, err))
			continue
		}
		if !seen[addr] {
			seen[addr] = true
			addrs = append(addrs, addr)
		}
	}
	if len(faults) > 0 {
		return nil, joinFaults(faults)
	}
	return addrs, nil
}

// joinFaults puts errors on one line.
func joinFaults(faults []error) error {
	const maxNamed = 3
	texts := make([]string, 0, maxNamed)
	for _, fault := range faults[:min(len(faults), maxNamed)] {
		texts = append(texts, fault.Error())
	}
	text := strings.Join(texts, "; ")
	if rest := len(faults) - maxNamed; rest > 0 {
		text = fmt.Sprintf("%s; and %d more", text, rest)
	}
	return errors.New(text)
}
