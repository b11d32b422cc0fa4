//go:build tools

package conformance

// What the suite's pods run; kept in go.mod by this.
import _ "sigs.k8s.io/gateway-api-conformance-images/echo-basic"
