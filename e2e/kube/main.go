// SPDX-License-Identifier: Apache-2.0

// Command kube is all of Kubernetes that a cluster of the end-to-end tests runs, in one binary: linked one by one, its
// parts would take seven times the disk and, as they share no text then, more memory. The first argument names the part;
// the others are the part's own.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// parts maps names to what runs them with os.Args, in which the name has taken the place of the binary's own.
func parts() map[string]func() {
	return map[string]func(){
		"etcd":                    func() { etcdmain.Main(os.Args) },
		"kube-apiserver":          func() { run(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() { run(controllermanager.NewControllerManagerCommand()) },
		"kube-scheduler":          func() { run(scheduler.NewSchedulerCommand()) },
		"kubelet":                 func() { run(kubelet.NewKubeletCommand(context.Background())) },
		"kube-proxy":              func() { run(proxy.NewProxyCommand()) },
		"kubectl":                 runKubectl,
	}
}

func main() {
	// A link named like a part is that part, so that scripts and people can call kubectl as they always do.
	parts := parts()
	part, ok := parts[filepath.Base(os.Args[0])]
	if !ok && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		part, ok = parts[os.Args[0]]
	}
	if !ok {
		fmt.Fprintln(os.Stderr, "usage: kube PART [ARGUMENT]..., where PART is one of:", strings.Join(slices.Sorted(maps.Keys(parts)), ", "))
		os.Exit(2)
	}
	part()
}

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}

// runKubectl prints errors in kubectl's own words, which cli.Run would replace.
func runKubectl() {
	kubectlutil.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
}
