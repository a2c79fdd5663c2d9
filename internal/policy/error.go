// SPDX-License-Identifier: Apache-2.0

package policy

// RefusedError is what Check returns for a call that a policy refuses or fails on. Its text, and the gRPC status that
// it wraps, are those of NSM's authorize element, so a client cannot tell the two apart. It has no token in it.
type RefusedError struct {
	// Policy is the name of the policy: the file that it was read from, or its place among those NSM ships.
	// It is for the log; clients are not told.
	Policy string

	err error
}

// Error gives the text of NSM's authorize element.
func (e *RefusedError) Error() string {
	return "registry: an error occurred during authorization policy check: " + e.err.Error()
}

// Unwrap gives the policy's own error, which has the gRPC status: PermissionDenied if the policy refused, Internal
// if it could not be evaluated.
func (e *RefusedError) Unwrap() error { return e.err }
