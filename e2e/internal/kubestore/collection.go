// SPDX-License-Identifier: Apache-2.0

package kubestore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// object is a custom resource.
type object interface {
	runtime.Object
	metav1.Object
}

// kind is what differs between the two custom resources.
type kind[T object] struct {
	group    schema.GroupKind
	resource schema.GroupResource
	// empty returns an object without content, which clients give along with an error.
	empty func() T
	// clone returns a copy with all fields.
	clone func(T) T
	// sameSpec says whether two objects have the same content, metadata aside.
	sameSpec func(a, b T) bool
}

// place is where an object is.
type place struct{ namespace, name string }

// collection holds all objects of one kind. What it holds is never changed, only replaced, so that it may be read
// without the store's lock.
type collection[T object] struct {
	kind[T]
	store    *Store
	objects  map[place]T
	watchers map[*watcher[T]]struct{}
}

func newCollection[T object](s *Store, k kind[T]) *collection[T] {
	return &collection[T]{
		kind:     k,
		store:    s,
		objects:  make(map[place]T),
		watchers: make(map[*watcher[T]]struct{}),
	}
}

func (c *collection[T]) create(ctx context.Context, namespace string, o T, options metav1.CreateOptions) (created T, err error) {
	none := c.empty()
	o = c.clone(o)
	switch {
	case ctx.Err() != nil:
		return none, ctx.Err()
	case len(options.DryRun) > 0:
		return none, c.unsupported("create with dryRun")
	case namespace == "":
		return none, apierrors.NewBadRequest("an empty namespace may not be set during creation")
	case o.GetNamespace() != "" && o.GetNamespace() != namespace:
		return none, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	case o.GetResourceVersion() != "":
		return none, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}

	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	version := c.store.version + 1
	if o.GetName() == "" {
		if o.GetGenerateName() == "" {
			return none, c.invalid(o, field.Required(field.NewPath("metadata", "name"), "name or generateName is required"))
		}
		o.SetName(o.GetGenerateName() + suffix(version))
	}
	if faults := validation.NameIsDNSSubdomain(o.GetName(), false); len(faults) > 0 {
		return none, c.invalid(o, field.Invalid(field.NewPath("metadata", "name"), o.GetName(), faults[0]))
	}
	at := place{namespace, o.GetName()}
	if _, ok := c.objects[at]; ok {
		return none, apierrors.NewAlreadyExists(c.resource, o.GetName())
	}
	o.SetNamespace(namespace)
	o.SetUID(uid(version))
	o.SetGeneration(1)
	o.SetCreationTimestamp(metav1.NewTime(c.store.options.Clock.Now()).Rfc3339Copy())
	c.put(at, o, watch.Added)
	return c.clone(o), nil
}

func (c *collection[T]) update(ctx context.Context, namespace string, o T, options metav1.UpdateOptions) (updated T, err error) {
	none := c.empty()
	o = c.clone(o)
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	if len(options.DryRun) > 0 {
		return none, c.unsupported("update with dryRun")
	}

	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	at := place{namespace, o.GetName()}
	current, ok := c.objects[at]
	switch {
	case !ok:
		return none, apierrors.NewNotFound(c.resource, o.GetName())
	case o.GetResourceVersion() == "":
		return none, c.invalid(o, field.Invalid(field.NewPath("metadata", "resourceVersion"), "", "must be specified for an update"))
	case o.GetUID() != "" && o.GetUID() != current.GetUID():
		return none, c.conflict(o.GetName(), fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", o.GetUID(), current.GetUID()))
	case o.GetResourceVersion() != current.GetResourceVersion():
		return none, c.conflict(o.GetName(), errModified)
	}
	// What belongs to the server can't be changed by an update.
	o.SetNamespace(namespace)
	o.SetUID(current.GetUID())
	o.SetCreationTimestamp(current.GetCreationTimestamp())
	o.SetGeneration(current.GetGeneration())
	if !c.sameSpec(o, current) {
		o.SetGeneration(current.GetGeneration() + 1)
	} else if sameMeta(o, current) {
		return c.clone(current), nil
	}
	c.put(at, o, watch.Modified)
	return c.clone(o), nil
}

func (c *collection[T]) remove(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(options.DryRun) > 0 {
		return c.unsupported("delete with dryRun")
	}

	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	at := place{namespace, name}
	current, ok := c.objects[at]
	if !ok {
		return apierrors.NewNotFound(c.resource, name)
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != current.GetUID() {
			return c.conflict(name, fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, current.GetUID()))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != current.GetResourceVersion() {
			return c.conflict(name, fmt.Errorf("precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v",
				*p.ResourceVersion, current.GetResourceVersion()))
		}
	}
	delete(c.objects, at)
	gone := c.clone(current)
	gone.SetResourceVersion(versionText(c.store.next()))
	c.publish(gone, watch.Deleted)
	return nil
}

func (c *collection[T]) removeAll(ctx context.Context, namespace string, options metav1.DeleteOptions, listOptions metav1.ListOptions) error {
	objects, _, err := c.list(ctx, namespace, listOptions)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := c.remove(ctx, o.GetNamespace(), o.GetName(), options); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func (c *collection[T]) get(ctx context.Context, namespace, name string) (T, error) {
	if ctx.Err() != nil {
		return c.empty(), ctx.Err()
	}
	c.store.mu.Lock()
	o, ok := c.objects[place{namespace, name}]
	c.store.mu.Unlock()
	if !ok {
		return c.empty(), apierrors.NewNotFound(c.resource, name)
	}
	return c.clone(o), nil
}

// list returns all objects in namespace, or in all of them if it is empty, and the version of that list. They must be
// copied before they are given away.
func (c *collection[T]) list(ctx context.Context, namespace string, options metav1.ListOptions) ([]T, string, error) {
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	if err := c.supports(options); err != nil {
		return nil, "", err
	}
	objects, version := c.snapshot(namespace)
	return objects, versionText(version), nil
}

// snapshot returns what there is, sorted as etcd's keys are.
func (c *collection[T]) snapshot(namespace string) ([]T, uint64) {
	c.store.mu.Lock()
	objects := c.locked(namespace)
	version := c.store.version
	c.store.mu.Unlock()
	slices.SortFunc(objects, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return objects, version
}

// locked returns the objects in namespace in no order. The store must be locked.
func (c *collection[T]) locked(namespace string) []T {
	objects := make([]T, 0, len(c.objects))
	for at, o := range c.objects {
		if namespace == "" || at.namespace == namespace {
			objects = append(objects, o)
		}
	}
	return objects
}

func (c *collection[T]) watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := c.supports(options); err != nil {
		return nil, err
	}
	return c.newWatcher(ctx, namespace, options), nil
}

// put stores o as what is at the place from now on. The store must be locked.
func (c *collection[T]) put(at place, o T, what watch.EventType) {
	o.SetResourceVersion(versionText(c.store.next()))
	c.objects[at] = o
	c.publish(o, what)
}

// publish tells all watchers. The store must be locked.
func (c *collection[T]) publish(o T, what watch.EventType) {
	for w := range c.watchers {
		w.put(news[T]{what: what, object: o})
	}
}

// endWatches ends all watches. The store must be locked.
func (c *collection[T]) endWatches() {
	for w := range c.watchers {
		w.Stop()
		delete(c.watchers, w)
	}
}

// supports refuses what a store can't do rather than give a wrong answer.
func (c *collection[T]) supports(options metav1.ListOptions) error {
	switch {
	case options.LabelSelector != "" || options.FieldSelector != "":
		return c.unsupported("selectors")
	case options.ResourceVersion != "" && options.ResourceVersion != "0":
		return c.unsupported("reading at a resourceVersion")
	case options.Limit != 0 || options.Continue != "":
		return c.unsupported("lists in pieces")
	case options.SendInitialEvents != nil || options.AllowWatchBookmarks:
		return c.unsupported("bookmarks")
	default:
		return nil
	}
}

func (c *collection[T]) unsupported(what string) error {
	return apierrors.NewMethodNotSupported(c.resource, what)
}

func (c *collection[T]) invalid(o T, fault *field.Error) error {
	return apierrors.NewInvalid(c.group, o.GetName(), field.ErrorList{fault})
}

func (c *collection[T]) conflict(name string, why error) error {
	return apierrors.NewConflict(c.resource, name, why)
}

// sameMeta says whether a write of a in place of b would change nothing that is metadata.
func sameMeta(a, b metav1.Object) bool {
	return apiequality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) &&
		apiequality.Semantic.DeepEqual(a.GetAnnotations(), b.GetAnnotations()) &&
		apiequality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences()) &&
		apiequality.Semantic.DeepEqual(a.GetFinalizers(), b.GetFinalizers())
}
