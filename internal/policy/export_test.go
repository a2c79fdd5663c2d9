// SPDX-License-Identifier: Apache-2.0

package policy

// SourceOf lets tests make copies of the policies that NSM ships.
var SourceOf = sourceOf
