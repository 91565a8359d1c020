package mercury

import "strings"

// Permission names something that a role may ask of Mercury itself. What its
// tools may touch is not among them: that is the gate's to judge.
type Permission string

const (
	MayPrompt      Permission = "prompt"  // talk to the agent
	MayStop        Permission = "stop"    // end a run
	MayCompact     Permission = "compact" // shorten what the model sees
	MayReset       Permission = "reset"   // begin a conversation afresh
	ListTasks      Permission = "tasks.list"
	CreateTasks    Permission = "tasks.create"
	PauseTasks     Permission = "tasks.pause"
	ResumeTasks    Permission = "tasks.resume"
	DeleteTasks    Permission = "tasks.delete"
	GetConfig      Permission = "config.get"
	SetConfig      Permission = "config.set"
	ListRoles      Permission = "roles.list"
	GrantRoles     Permission = "roles.grant"
	RevokeRoles    Permission = "roles.revoke"
	GetPermissions Permission = "permissions.get" // see grants, and what waits for a decision
	SetPermissions Permission = "permissions.set" // give and take them back
	Answer         Permission = "questions.answer"
	SeeDeliveries  Permission = "deliveries.list"
)

// Permissions are all of them, in the order they are shown.
func Permissions() []Permission {
	return []Permission{MayPrompt, MayStop, MayCompact, MayReset, ListTasks, CreateTasks, PauseTasks, ResumeTasks, DeleteTasks,
		GetConfig, SetConfig, ListRoles, GrantRoles, RevokeRoles, GetPermissions, SetPermissions, Answer, SeeDeliveries}
}

// Covers reports whether p, which may end in a star as in a configuration,
// stands for q: "tasks.*" covers tasks.list, "*" covers everything.
func (p Permission) Covers(q Permission) bool {
	prefix, star := strings.CutSuffix(string(p), "*")
	return p == q || star && strings.HasPrefix(string(q), prefix)
}
