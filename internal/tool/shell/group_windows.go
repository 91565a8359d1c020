package shell

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/mercury-agent/mercury/internal/sandbox"
)

var defaultPath = strings.Join([]string{
	filepath.Join(os.Getenv("SystemRoot"), "System32"),
	os.Getenv("SystemRoot"),
	filepath.Join(os.Getenv("SystemRoot"), "System32", "WindowsPowerShell", "v1.0"),
	filepath.Join(os.Getenv("ProgramFiles"), "Git", "cmd"),
}, ";")

func defaultShell() string {
	return filepath.Join(os.Getenv("SystemRoot"), "System32", "cmd.exe")
}

func shellArgs(shell, command string) []string { return []string{shell, "-c", command} }

// shellAttributes hands cmd.exe its line as it is; it has quoting rules of its
// own.
func shellAttributes(cmd *exec.Cmd, shell, command string) {
	if strings.EqualFold(filepath.Base(shell), "cmd.exe") {
		cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `"` + shell + `" /d /s /c "` + command + `"`}
	}
}

// systemEnv is what programs here do not start without.
func systemEnv() []string {
	var env []string
	for _, name := range []string{"SystemRoot", "SystemDrive", "TEMP", "TMP", "PATHEXT", "USERPROFILE"} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// A group is a command and what it started, in a job object.
type group struct {
	job windows.Handle
}

// startGroup starts the command suspended and lets it run once it is in its
// job, so that nothing it starts can be outside.
//
// The job also bounds what the command uses up; nothing here holds files.
func startGroup(cmd *exec.Cmd, _ string, _ bool) (*group, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("create job: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	bounds := sandbox.DefaultLimits()
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE |
		windows.JOB_OBJECT_LIMIT_ACTIVE_PROCESS | windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY
	limits.BasicLimitInformation.ActiveProcessLimit = uint32(bounds.Processes)
	limits.ProcessMemoryLimit = uintptr(bounds.Memory)
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		windows.CloseHandle(job)
		return nil, fmt.Errorf("limit job: %w", err)
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.CreationFlags = windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP
	cmd.SysProcAttr.HideWindow = true
	if err := cmd.Start(); err != nil {
		windows.CloseHandle(job)
		return nil, err
	}
	if err := admit(job, uint32(cmd.Process.Pid)); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		windows.CloseHandle(job)
		return nil, err
	}
	return &group{job}, nil
}

func admit(job windows.Handle, pid uint32) error {
	const suspendResume = 0x0800
	p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE|suspendResume, false, pid)
	if err != nil {
		return fmt.Errorf("open process: %w", err)
	}
	defer windows.CloseHandle(p)
	if err := windows.AssignProcessToJobObject(job, p); err != nil {
		return fmt.Errorf("assign to job: %w", err)
	}
	resume := windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")
	if status, _, _ := resume.Call(uintptr(p)); status != 0 {
		return fmt.Errorf("resume process: status %#x", status)
	}
	return nil
}

// ask has no counterpart for programs without a window; the job is ended.
func (g *group) ask() { g.kill() }

// kill ends the job; who was in it is not known here.
func (g *group) kill() bool {
	_ = windows.TerminateJobObject(g.job, 1)
	return false
}

func (g *group) release() { windows.CloseHandle(g.job) }
