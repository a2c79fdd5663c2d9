// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"pgregory.net/rapid"
)

func TestQueueKeepsTheLatestOfEachName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue[int]()
		var order []string // the model: names in the order in which they came in
		latest := make(map[string]int)
		for i := range rapid.IntRange(0, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "put") {
				name := strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "name"))
				if _, ok := latest[name]; !ok {
					order = append(order, name)
				}
				latest[name] = i
				q.put(name, i)
				require.Len(t, q.filled, 1)
				continue
			}
			got, ok := q.take()
			require.Equal(t, len(order) > 0, ok)
			if ok {
				require.Equal(t, latest[order[0]], got)
				delete(latest, order[0])
				order = order[1:]
			}
			require.LessOrEqual(t, len(q.order), 2*len(latest)+1, "grows with what went through it")
		}
	})
}

func TestQueueThatNeverRunsEmptyDoesNotGrow(t *testing.T) {
	q := newQueue[int]()
	q.put("0", 0)
	for i := range 100_000 {
		q.put(strconv.Itoa(i+1), i)
		_, ok := q.take()
		require.True(t, ok)
	}
	require.LessOrEqual(t, cap(q.order), 64)
	require.Len(t, q.latest, 1)
}

func TestQueueHasOneHeader(t *testing.T) {
	q := newQueue[int]()
	require.False(t, q.headed())
	require.Nil(t, q.takeHeader())
	q.putHeader(metadata.Pairs("member", "first"))
	q.putHeader(metadata.Pairs("member", "second"))
	require.True(t, q.headed())
	require.Len(t, q.filled, 1)
	require.Equal(t, []string{"first"}, q.takeHeader().Get("member"))
	q.putHeader(metadata.Pairs("member", "third"))
	require.Nil(t, q.takeHeader())
	require.True(t, q.headed())
}
