package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/health"
	"github.com/moqrelay/operator/controllers/render"
)

// +kubebuilder:rbac:groups=moqrelay.io,resources=moqrelays,verbs=get;list;watch
// +kubebuilder:rbac:groups=moqrelay.io,resources=moqrelays/status,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;configmaps;serviceaccounts,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=moqrelay.io,resources=moqrelays/finalizers,verbs=update
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=moq-relay-operator,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=moqrelays.moqrelay.io,verbs=get

const (
	// conflictRetry is when a name that belongs to somebody else is looked at
	// again: such an object is not in our cache, so its end is not seen.
	conflictRetry = time.Minute
	// refusedRetry is when a write that the API server refused is tried again.
	refusedRetry = 5 * time.Minute
	// staleRetry is when a pass that met a newer object is repeated, in case that
	// the cache does not tell of it sooner.
	staleRetry = time.Second
)

// Reconciler brings the children of MoQRelays to what is asked, and their status
// to what is seen. Its fields are set before SetupWithManager and never after.
type Reconciler struct {
	// Client reads from the cache of [CacheOptions] and writes to the API server.
	Client client.Client
	// Live reads from the API server itself: objects that do not bear our labels
	// are not in the cache.
	Live client.Reader
	// Events takes what people should see in kubectl describe; nil drops it.
	Events EventSink
	// Render is given to every rendering; its HostAccess is decided per object.
	Render render.Options
	// AllowHost lets every namespace touch its nodes, labelled or not.
	AllowHost bool
	// Concurrency is how many objects are worked on at once; 0 means 1.
	Concurrency int
	// Version is written to status.operatorVersion.
	Version string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Health says how pods are asked for their status; nil: they are not asked.
	Health *health.Config

	memo       memo
	collection *collection // nil: there is none
}

// SetupWithManager registers the reconciler and all that it watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("moqrelay").
		// Our own status writes change neither; without this each would be followed by an idle pass.
		For(&v1alpha1.MoQRelay{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&networkingv1.NetworkPolicy{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(podOwner)).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(1, r.Concurrency)})
	if r.Health != nil {
		r.collection = newCollection(*r.Health)
		b = b.WatchesRawSource(r.collection.source())
		if err := mgr.Add(r.collection); err != nil {
			return err
		}
	}
	if !r.AllowHost {
		b = b.WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(permissionChanged))
	}
	return b.Complete(r)
}

// podOwner finds the relay of a pod by its label: the pod's own owner is a
// ReplicaSet, which we do not read.
func podOwner(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.GetLabels()[labelInstance]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// permissionChanged lets through the one change of a namespace that matters here.
// At its first sight a namespace tells nothing new: its relays are looked at anyway.
var permissionChanged = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetLabels()[v1alpha1.LabelHostAccess] != e.ObjectNew.GetLabels()[v1alpha1.LabelHostAccess]
	},
}

// inNamespace finds all relays of a namespace whose permission changed. All
// relays are listed and then sorted out, because a cache of some namespaces
// refuses to be asked about another.
func (r *Reconciler) inNamespace(ctx context.Context, ns client.Object) []reconcile.Request {
	var list v1alpha1.MoQRelayList
	if err := r.Client.List(ctx, &list); err != nil {
		logFrom(ctx).Error(err, "cannot list the relays of a namespace whose permission changed", "namespace", ns.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Namespace == ns.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile makes one pass over one object.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	relay := &v1alpha1.MoQRelay{}
	if err := r.Client.Get(ctx, req.NamespacedName, relay); err != nil {
		if apierrors.IsNotFound(err) {
			r.memo.forget(req.NamespacedName)
			r.uncollect(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if relay.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // the garbage collector takes the children
	}
	result, err := r.pass(ctx, relay)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return reconcile.Result{}, nil
	}
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	}
	return result, err
}

func (r *Reconciler) pass(ctx context.Context, relay *v1alpha1.MoQRelay) (reconcile.Result, error) {
	s, err := r.observe(ctx, relay)
	if err != nil {
		return reconcile.Result{}, err
	}
	if s.leaving { // it takes no new object and no event, and the relay goes with it
		r.memo.forget(nameOf(relay))
		r.uncollect(nameOf(relay))
		return reconcile.Result{}, nil
	}
	o := observation{relay: relay, pods: readPods(s.pods), version: r.Version, now: r.now()}
	r.collect(relay, o.pods)
	o.intended, err = r.converge(ctx, relay, &s)
	if f, ok := errors.AsType[*fault](err); ok {
		o.fault = f
	} else if err != nil {
		return reconcile.Result{}, err
	}
	o.deployment, o.service = s.deployment(relay), s.service(relay)
	return r.writeStatus(ctx, o)
}

// converge renders what is wanted and applies it, unless the memo knows that
// nothing has changed. A [*fault] among its errors is a person's turn; other
// errors are worth a retry.
func (r *Reconciler) converge(ctx context.Context, relay *v1alpha1.MoQRelay, s *scene) (intended, error) {
	if agreed, ok := r.memo.recall(relay, s); ok && !paused(relay) {
		return agreed, nil
	}
	p, err := makePlan(relay, r.options(s), s.deployment(relay))
	if err != nil {
		return intended{}, err
	}
	if paused(relay) {
		return p.intended, faultf(v1alpha1.ReasonPaused, "the annotation %s is \"true\": nothing is changed until it is removed", v1alpha1.AnnotationPaused)
	}
	if err := r.apply(ctx, relay, p, s); err != nil {
		return p.intended, err
	}
	settled, err := r.prune(ctx, relay, p, s)
	if err == nil && settled {
		r.memo.remember(relay, s, p)
	}
	return p.intended, err
}

func (r *Reconciler) options(s *scene) render.Options {
	options := r.Render
	options.HostAccess = r.AllowHost || s.hostAccess
	return options
}

func paused(relay *v1alpha1.MoQRelay) bool {
	return relay.Annotations[v1alpha1.AnnotationPaused] == "true"
}

// writeStatus makes the status and writes it when it is not what stands there.
// Events follow the write, so that each transition is told once, restarts of the
// operator included.
func (r *Reconciler) writeStatus(ctx context.Context, o observation) (reconcile.Result, error) {
	next, wake := status(o)
	if !equality.Semantic.DeepEqual(o.relay.Status, next) {
		changed := o.relay.DeepCopy()
		changed.Status = next
		if err := r.Client.Status().Update(ctx, changed); err != nil {
			if apierrors.IsNotFound(err) {
				return reconcile.Result{}, nil // deleted meanwhile
			}
			return reconcile.Result{}, fmt.Errorf("write status: %w", err)
		}
		r.tell(ctx, o.relay, transitions(o.relay.Status, next))
	}
	return reconcile.Result{RequeueAfter: o.nextPass(wake)}, nil
}

// nextPass is how long from now the object is looked at again, 0 for not at all:
// at the instant wake, or when a fault that no watch sees the end of is retried.
func (o observation) nextPass(wake time.Time) time.Duration {
	if o.fault != nil {
		switch o.fault.reason {
		case v1alpha1.ReasonNameConflict:
			wake = earlier(wake, o.now.Add(conflictRetry))
		case v1alpha1.ReasonApplyFailed:
			wake = earlier(wake, o.now.Add(refusedRetry))
		}
	}
	if wake.IsZero() {
		return 0
	}
	return max(time.Millisecond, wake.Sub(o.now))
}

func (r *Reconciler) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

func logFrom(ctx context.Context) logr.Logger { return log.FromContext(ctx) }
