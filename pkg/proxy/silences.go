// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// silences counts the questions that were not answered in a row over each connection to a member that is alive.
type silences map[*grpc.ClientConn]int

// update takes in one more question, and returns the connections that left too many unanswered.
func (s silences) update(asked []*grpc.ClientConn, verdicts []verdict) (hung []*grpc.ClientConn) {
	for conn := range s {
		if !slices.Contains(asked, conn) {
			delete(s, conn)
		}
	}
	for i, conn := range asked {
		if status.Code(verdicts[i].err) != codes.DeadlineExceeded || verdicts[i].answered() {
			delete(s, conn)
			continue
		}
		if s[conn]++; s[conn] >= maxMissed {
			hung = append(hung, conn)
		}
	}
	return hung
}
