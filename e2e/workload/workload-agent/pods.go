// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

type pod struct {
	namespace, name string
}

// pods knows the pods of this node. It is safe for concurrent use.
type pods struct {
	client kubernetes.Interface
	node   string

	mu    sync.Mutex
	known map[string]pod
}

// of returns the pod that a process is in. The kubelet puts the UID of a pod into the name of its control group.
func (p *pods) of(ctx context.Context, pid int32) (pod, error) {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return pod{}, fmt.Errorf("find the control group of process %d: %w", pid, err)
	}
	match := regexp.MustCompile(`/pod([0-9a-f-]{36})/`).FindSubmatch(groups)
	if match == nil {
		return pod{}, errors.New("the process is in no pod")
	}
	uid := string(match[1])
	p.mu.Lock()
	defer p.mu.Unlock()
	if found, ok := p.known[uid]; ok {
		return found, nil
	}
	list, err := p.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + p.node})
	if err != nil {
		return pod{}, fmt.Errorf("list the pods of %s: %w", p.node, err)
	}
	clear(p.known)
	for _, item := range list.Items {
		p.known[string(item.UID)] = pod{item.Namespace, item.Name}
	}
	found, ok := p.known[uid]
	if !ok {
		return pod{}, fmt.Errorf("%s has no pod with UID %s", p.node, uid)
	}
	return found, nil
}
