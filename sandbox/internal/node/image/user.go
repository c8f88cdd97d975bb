// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/sandbox/internal/node/container"
)

// User is who an image wants to run as.
type User struct {
	UID, GID int
	// Name is set when the image gives a name and not a number.
	Name string
}

// User reads what the config says, by the image's own passwd and group files.
func (i *Image) User() (User, error) {
	userPart, groupPart, hasGroup := strings.Cut(i.Config.User, ":")
	var user User
	if userPart == "" {
		userPart = "0"
	}
	fields, found, err := i.find("/etc/passwd", userPart)
	if err != nil {
		return user, err
	}
	if user.UID, err = strconv.Atoi(userPart); err != nil {
		if !found {
			return user, fmt.Errorf("user %q of the image is not in its /etc/passwd", userPart)
		}
		user.Name = userPart
		if user.UID, err = strconv.Atoi(fields[2]); err != nil {
			return user, fmt.Errorf("read uid of user %q in image: %w", userPart, err)
		}
	}
	if !hasGroup {
		if found && len(fields) > 3 {
			if user.GID, err = strconv.Atoi(fields[3]); err != nil {
				return user, fmt.Errorf("read gid of user %q in image: %w", userPart, err)
			}
		}
		return user, nil
	}
	user.GID, err = i.group(groupPart)
	return user, err
}

func (i *Image) group(group string) (int, error) {
	if gid, err := strconv.Atoi(group); err == nil {
		return gid, nil
	}
	fields, found, err := i.find("/etc/group", group)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, fmt.Errorf("group %q of the image is not in its /etc/group", group)
	}
	gid, err := strconv.Atoi(fields[2])
	if err != nil {
		return 0, fmt.Errorf("read gid of group %q in image: %w", group, err)
	}
	return gid, nil
}

// find returns the line of a passwd or group file with this name or number.
func (i *Image) find(file, key string) ([]string, bool, error) {
	path, err := container.ResolveIn(i.Root, file)
	if err != nil {
		return nil, false, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %s of image: %w", file, err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) > 2 && (fields[0] == key || fields[2] == key) {
			return fields, true, nil
		}
	}
	return nil, false, lines.Err()
}
