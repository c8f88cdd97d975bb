// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
)

// attemptGRPC calls grpc.health.v1.Health/Check. Both messages have one field,
// so they are written by hand rather than with a gRPC library.
func attemptGRPC(ctx context.Context, probe *corev1.GRPCAction, target probeTarget) error {
	service := ""
	if probe.Service != nil {
		service = *probe.Service
	}
	url := "http://" + address(target.ip, int(probe.Port)) + "/grpc.health.v1.Health/Check"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(healthRequest(service)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return err
	}
	status := resp.Trailer.Get("Grpc-Status") + resp.Header.Get("Grpc-Status")
	if status != "0" {
		return fmt.Errorf("gRPC probe failed with status %s: %s", status, resp.Trailer.Get("Grpc-Message")+resp.Header.Get("Grpc-Message"))
	}
	// 5 bytes of frame, then field 1 (a varint): 1 is SERVING.
	if len(body) < 7 || body[5] != 0x08 || body[6] != 1 {
		return fmt.Errorf("service unhealthy (responded with %q)", body)
	}
	return nil
}

// healthRequest is a gRPC frame with field 1, the name of the service.
func healthRequest(service string) []byte {
	var message []byte
	if service != "" {
		message = append(message, 0x0a)
		message = binary.AppendUvarint(message, uint64(len(service)))
		message = append(message, service...)
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) //nolint:gosec // a name is short
	return append(frame, message...)
}
