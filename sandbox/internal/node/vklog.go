// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"log/slog"

	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
)

// vkLog writes virtual-kubelet's log to ours. Its own adapter for slog panics
// when an error is logged as an error. All it says is for debugging only.
type vkLog struct{ log *slog.Logger }

func newVKLog(log *slog.Logger) vklog.Logger { return vkLog{log.With("component", "virtual-kubelet")} }

func (l vkLog) Debug(args ...any)                 { l.log.Debug(fmt.Sprint(args...)) }
func (l vkLog) Debugf(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }
func (l vkLog) Info(args ...any)                  { l.Debug(args...) }
func (l vkLog) Infof(format string, args ...any)  { l.Debugf(format, args...) }
func (l vkLog) Warn(args ...any)                  { l.Debug(args...) }
func (l vkLog) Warnf(format string, args ...any)  { l.Debugf(format, args...) }
func (l vkLog) Error(args ...any)                 { l.log.Warn(fmt.Sprint(args...)) }
func (l vkLog) Errorf(format string, args ...any) { l.log.Warn(fmt.Sprintf(format, args...)) }

// Fatal does not end the process: that is for main to decide.
func (l vkLog) Fatal(args ...any)                 { l.log.Error(fmt.Sprint(args...)) }
func (l vkLog) Fatalf(format string, args ...any) { l.log.Error(fmt.Sprintf(format, args...)) }

func (l vkLog) WithField(key string, value any) vklog.Logger { return vkLog{l.log.With(key, value)} }

func (l vkLog) WithFields(fields vklog.Fields) vklog.Logger {
	log := l.log
	for key, value := range fields {
		log = log.With(key, value)
	}
	return vkLog{log}
}

func (l vkLog) WithError(err error) vklog.Logger { return vkLog{l.log.With("err", err)} }
