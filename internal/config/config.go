package config

import "time"

// Config is what mercury.yaml may say, with defaults filled in. Its fields
// are the whole contract: their json names are the keys, their comments are
// the descriptions in the schema and in docs/configuration.md. The tags enum,
// min and max are checked on loading.
type Config struct {
	// Name is what the agent is called.
	Name string `json:"name"`
	// Owner is what the agent calls you; empty: it asks once.
	Owner string `json:"owner"`
	// Timezone is the IANA zone of the owner, such as Europe/Lisbon; empty: the machine's.
	Timezone string `json:"timezone"`
	// Model answers by default, written provider/model; empty: chosen from the keys found in the environment.
	Model string `json:"model"`
	// Fallbacks are tried in order, each written provider/model, when the model refuses the key, is out of quota or unavailable.
	Fallbacks []string `json:"fallbacks"`
	// Providers are the model services by the name that stands before the slash in model. A known name, such as openai or anthropic, needs no more than its key.
	Providers map[string]Provider `json:"providers"`
	// Database says where everything that must be consistent is kept.
	Database Database `json:"database"`
	// Web is the HTTP interface and the cockpit.
	Web Web `json:"web"`
	// Workspace is the folder where relative paths of tools begin.
	Workspace string `json:"workspace"`
	// WorkspaceShared says that every process on the same database sees the workspace at the same path, so that a run with file or command scopes may move between them.
	WorkspaceShared bool `json:"workspace_shared"`
	// Permissions say what the owner's own conversations may do unasked.
	Permissions Permissions `json:"permissions"`
	// Roles change what the roles admin and member may do, and add others, by name; channels give them to people. The owner may everything.
	Roles map[string]Role `json:"roles"`
	// Sandbox is the fence around commands.
	Sandbox Sandbox `json:"sandbox"`
	// Budget caps what a day and a month may cost.
	Budget Budget `json:"budget"`
	// Limits end a turn that does not end by itself.
	Limits Limits `json:"limits"`
	// Prices correct the built-in price table, by provider/model.
	Prices map[string]Price `json:"prices"`
	// Channels are the places where people talk to the agent; one that is absent is off.
	Channels Channels `json:"channels"`
	// Bots caps what the fleet may do.
	Bots Bots `json:"bots"`
	// Heartbeat looks at heartbeat.md from time to time; it costs nothing when nothing changed.
	Heartbeat Heartbeat `json:"heartbeat"`
	// QuietHours are the hours in which nothing is sent unasked.
	QuietHours QuietHours `json:"quiet_hours"`
	// Memory is what is remembered between conversations.
	Memory Memory `json:"memory"`
	// WebSearch is the service behind web_search.
	WebSearch WebSearch `json:"web_search"`
	// MCP are servers that lend their tools.
	MCP MCP `json:"mcp"`
	// GitHub is the account that the GitHub tools use.
	GitHub GitHub `json:"github"`
	// Spotify is the application that the Spotify tools use.
	Spotify Spotify `json:"spotify"`
	// HTTP is how the program reaches the network.
	HTTP HTTP `json:"http"`
	// Backup makes snapshots by itself.
	Backup Backup `json:"backup"`
	// Telemetry is what may be measured from outside; nothing is sent by default.
	Telemetry Telemetry `json:"telemetry"`
	// Log is the diary for operators.
	Log Log `json:"log"`

	// Warnings are remarks about the home and the file that stop nothing,
	// such as an .env that others can read.
	Warnings []string `json:"-"`

	home    Home
	file    string   // path of the file that was read; empty: none
	text    []byte   // its content, as read
	hidden  []string // values in it that no excerpt may show
	dotenv  map[string]variable
	origins map[string]Origin
}

// Provider is one model service.
type Provider struct {
	// API is the wire the service speaks; empty: as known by the name, else openai.
	API string `json:"api" enum:"openai,anthropic"`
	// BaseURL is where it listens: for openai with the version path, such as https://api.openai.com/v1, for anthropic without it, such as https://api.anthropic.com.
	BaseURL string `json:"base_url"`
	// APIKey is the key, best written "${NAME}"; empty: the usual variable of a known provider, or no key.
	APIKey Secret `json:"api_key"`
	// Headers are added to each request.
	Headers map[string]Secret `json:"headers"`
	// Quirks is the table row of dialect differences; empty: found by the provider's name and address.
	Quirks string `json:"quirks"`
	// HeaderTimeout is how long to wait for the first byte of an answer, "0" for ever; empty: http.header_timeout.
	HeaderTimeout *Duration `json:"header_timeout"`
	// IdleTimeout is how long an answer may stand still, "0" for ever; empty: http.idle_timeout.
	IdleTimeout *Duration `json:"idle_timeout"`
	// ContextWindow is the model's window in tokens where the service does not tell; 0: unknown.
	ContextWindow int64 `json:"context_window" min:"0"`
	// MaxOutput is the most tokens to ask for in one answer; 0: the service's own limit.
	MaxOutput int64 `json:"max_output" min:"0"`
}

// Database says where the database is.
type Database struct {
	// URL is a postgres:// address; empty: SQLite in the home.
	URL Secret `json:"url"`
}

// Web is the HTTP interface.
type Web struct {
	// Listen is the host:port to listen on. Every request needs the token, on loopback too. MERCURY_LISTEN overrides it.
	Listen string `json:"listen"`
	// Hosts are names under which a browser may reach it besides loopback, such as a tailnet name.
	Hosts []string `json:"hosts"`
}

// Permissions of the owner's own conversations; nobody inherits them.
type Permissions struct {
	// Mode decides what asks first: with ask everything that changes something, with guided what cannot be undone or is out of scope, with allow-all nothing but what is always blocked.
	Mode string `json:"mode" enum:"ask,guided,allow-all"`
	// Scopes are the folders that tools may use; empty: the workspace, to read and write.
	Scopes []Scope `json:"scopes"`
}

// Role is what the people who have it may do, and how much.
type Role struct {
	// Permissions are what they may ask of Mercury itself, such as prompt, stop, compact, reset, tasks.list, config.get, permissions.get or questions.answer; a star at the end stands for all that begin so.
	Permissions []string `json:"permissions"`
	// Tools are the tools they may use, by name or with a star at the end; a name after ! is denied. Empty: every tool that the role's rights allow.
	Tools []string `json:"tools"`
	// MessagesPerMinute is how often one of them may write; 0: 10 for everyone but owners and admins.
	MessagesPerMinute int `json:"messages_per_minute" min:"0"`
	// DailyTokens is what one of them may use in a day; 0: no cap of their own.
	DailyTokens int64 `json:"daily_tokens" min:"0"`
}

// Scope is one granted folder.
type Scope struct {
	// Path is the folder, absolute or beginning with ~.
	Path string `json:"path" required:"true"`
	// Read lets tools read below it.
	Read bool `json:"read"`
	// Write lets tools write below it.
	Write bool `json:"write"`
}

// Sandbox is the fence around commands.
type Sandbox struct {
	// Level is the least fence a command of a bot or helper needs: auto takes the strongest there is, the others refuse to run without it.
	Level string `json:"level" enum:"auto,landlock,bubblewrap,strict"`
}

// Budget caps what a day and a month may cost.
type Budget struct {
	// DailyTokens is what the owner's chats, helpers and schedules may use in a day, cached input counting a tenth; schedules stop at 80%, a chat asks at 100%. 0: no cap.
	DailyTokens int64 `json:"daily_tokens" min:"0"`
	// DailyMoney is the same in money, in the currency of the prices, and covers bots too. 0: no cap.
	DailyMoney float64 `json:"daily_money" min:"0"`
	// MonthlyTokens is what DailyTokens is, for a month. 0: no cap.
	MonthlyTokens int64 `json:"monthly_tokens" min:"0"`
	// MonthlyMoney is what DailyMoney is, for a month. 0: no cap.
	MonthlyMoney float64 `json:"monthly_money" min:"0"`
}

// Limits of a turn, by the kind of conversation.
type Limits struct {
	// Turn holds in ordinary conversations.
	Turn Limit `json:"turn"`
	// Code holds in code mode.
	Code Limit `json:"code"`
}

// Limit ends one turn; at a limit the run is parked with a choice where a person can answer.
type Limit struct {
	// Steps is the most model calls of one turn.
	Steps int `json:"steps" min:"1" max:"10000"`
	// Tokens is the most tokens of one turn; cached input counts a tenth.
	Tokens int64 `json:"tokens" min:"1000"`
	// Minutes is how long one turn may run, not counting time waiting for a person.
	Minutes int `json:"minutes" min:"1" max:"10080"`
}

// Price of a model, per million tokens.
type Price struct {
	// Input is the price of a million input tokens.
	Input float64 `json:"input" min:"0"`
	// CachedInput is the price of a million tokens read from the provider's cache.
	CachedInput float64 `json:"cached_input" min:"0"`
	// Output is the price of a million output tokens.
	Output float64 `json:"output" min:"0"`
}

// Channels are the places where people talk; nil is off.
type Channels struct {
	// Local is the terminal, the cockpit and the HTTP interface; it is always on.
	Local Local `json:"local"`
	// Telegram is a Telegram bot.
	Telegram *Telegram `json:"telegram"`
	// Discord is a Discord bot.
	Discord *Discord `json:"discord"`
	// Slack is a Slack application in socket mode.
	Slack *Slack `json:"slack"`
	// IMessage is the Messages application of this Mac.
	IMessage *IMessage `json:"imessage"`
	// Relay is a gateway that speaks for other platforms.
	Relay *Relay `json:"relay"`
}

// Local is the terminal, the cockpit and the HTTP interface.
type Local struct {
	// Progress shows one line per tool step; /progress toggles it.
	Progress bool `json:"progress"`
}

// Telegram is a Telegram bot.
type Telegram struct {
	// Token is the bot's token from @BotFather, best written "${TELEGRAM_BOT_TOKEN}".
	Token Secret `json:"token"`
	// APIURL is the Bot API server.
	APIURL string `json:"api_url"`
	// Owners are user ids that are you, besides those who paired.
	Owners []string `json:"owners"`
	// Members are user ids that may talk to the agent as members.
	Members []string `json:"members"`
	// Roles are further people by id, each with a role: admin, member or one below roles.
	Roles map[string]string `json:"roles"`
	// Progress shows one line per tool step; /progress toggles it.
	Progress bool `json:"progress"`
}

// Discord is a Discord bot.
type Discord struct {
	// Token is the bot's token, best written "${DISCORD_BOT_TOKEN}".
	Token Secret `json:"token"`
	// APIURL is the REST address.
	APIURL string `json:"api_url"`
	// Owners are user ids that are you, besides those who paired.
	Owners []string `json:"owners"`
	// Members are user ids that may talk to the agent as members.
	Members []string `json:"members"`
	// Roles are further people by id, each with a role: admin, member or one below roles.
	Roles map[string]string `json:"roles"`
	// Progress shows one line per tool step; /progress toggles it.
	Progress bool `json:"progress"`
}

// Slack is a Slack application in socket mode.
type Slack struct {
	// BotToken is the xoxb- token, best written "${SLACK_BOT_TOKEN}".
	BotToken Secret `json:"bot_token"`
	// AppToken is the xapp- token of socket mode, best written "${SLACK_APP_TOKEN}".
	AppToken Secret `json:"app_token"`
	// APIURL is the Web API address.
	APIURL string `json:"api_url"`
	// Owners are user ids that are you, besides those who paired.
	Owners []string `json:"owners"`
	// Members are user ids that may talk to the agent as members.
	Members []string `json:"members"`
	// Roles are further people by id, each with a role: admin, member or one below roles.
	Roles map[string]string `json:"roles"`
	// Progress shows one line per tool step; /progress toggles it.
	Progress bool `json:"progress"`
}

// IMessage is the Messages application of this Mac.
type IMessage struct {
	// Owners are addresses (numbers or mail) that are you, besides those who paired.
	Owners []string `json:"owners"`
	// Members are addresses (numbers or mail) that may talk to the agent as members.
	Members []string `json:"members"`
	// Roles are further people by id, each with a role: admin, member or one below roles.
	Roles map[string]string `json:"roles"`
	// Progress shows one line per tool step; /progress toggles it.
	Progress bool `json:"progress"`
}

// Relay is a gateway that speaks for other platforms.
type Relay struct {
	// URL is the gateway's address.
	URL string `json:"url" required:"true"`
	// Token is the gateway's bearer token, best written "${RELAY_TOKEN}".
	Token Secret `json:"token"`
	// Owners are sender ids that are you; nobody else is answered.
	Owners []string `json:"owners"`
	// Members are sender ids that may talk to the agent as members.
	Members []string `json:"members"`
	// Roles are further people by id, each with a role: admin, member or one below roles.
	Roles map[string]string `json:"roles"`
	// Progress shows one line per tool step; /progress toggles it.
	Progress bool `json:"progress"`
}

// Bots caps what the fleet may do.
type Bots struct {
	// MaxConcurrent is how many bot runs go at once; 0: one less than the processors, at least two.
	MaxConcurrent int `json:"max_concurrent" min:"0"`
	// DailyTokens is what one bot may use in a day unless its own folder says otherwise. 0: no cap.
	DailyTokens int64 `json:"daily_tokens" min:"0"`
	// FleetDailyTokens is what all bots together may use in a day. 0: no cap.
	FleetDailyTokens int64 `json:"fleet_daily_tokens" min:"0"`
	// DeliverablesDir is where finished work is put; empty: Documents/Mercury, or deliverables in the workspace when the home is not the usual one.
	DeliverablesDir string `json:"deliverables_dir"`
}

// Heartbeat looks at heartbeat.md from time to time.
type Heartbeat struct {
	// Every is the interval; "0" switches it off.
	Every Duration `json:"every"`
}

// QuietHours are the hours in which nothing is sent unasked.
type QuietHours struct {
	// From is the local time they begin, such as "22:00"; empty: none.
	From string `json:"from"`
	// To is the local time they end, such as "07:30".
	To string `json:"to"`
}

// Memory is what is remembered between conversations.
type Memory struct {
	// Learn lets quiet runs draw memories from conversations.
	Learn bool `json:"learn"`
}

// WebSearch is the service behind web_search.
type WebSearch struct {
	// Provider is the service: brave and tavily need a key, searxng the url of a server, duckduckgo nothing.
	Provider string `json:"provider" enum:"brave,tavily,searxng,duckduckgo"`
	// Key is the service's key, best written "${NAME}".
	Key Secret `json:"key"`
	// URL is where the service listens; empty: its usual address. It may be on the local network.
	URL string `json:"url"`
}

// MCP are servers that lend their tools.
type MCP struct {
	// Servers are the servers by name; each starts at its first call and stops when idle.
	Servers map[string]MCPServer `json:"servers"`
}

// MCPServer is one server: a command that speaks over its standard streams, or a URL.
type MCPServer struct {
	// Command is the program and its arguments.
	Command []string `json:"command"`
	// Env are the variables that the program gets besides a minimal set.
	Env map[string]Secret `json:"env"`
	// URL is the address of a server reached over HTTP.
	URL string `json:"url"`
	// Headers are added to each request.
	Headers map[string]Secret `json:"headers"`
	// Disabled keeps the entry without using it.
	Disabled bool `json:"disabled"`
}

// GitHub is the account that the GitHub tools use.
type GitHub struct {
	// Token is a personal access token; empty: GITHUB_TOKEN.
	Token Secret `json:"token"`
	// APIURL is the REST address; a GitHub Enterprise server has its own, such as https://github.example.com/api/v3.
	APIURL string `json:"api_url"`
	// DefaultOwner is the account or organisation meant when none is named.
	DefaultOwner string `json:"default_owner"`
	// DefaultRepo is the repository meant when none is named.
	DefaultRepo string `json:"default_repo"`
}

// Spotify is the application that the Spotify tools use.
type Spotify struct {
	// ClientID is the application's id; empty: SPOTIFY_CLIENT_ID.
	ClientID string `json:"client_id"`
	// RedirectURI is the address registered with the application.
	RedirectURI string `json:"redirect_uri"`
}

// HTTP is how the program reaches the network.
type HTTP struct {
	// Proxy is used where the environment names none (https_proxy, HTTPS_PROXY and so on come first).
	Proxy Secret `json:"proxy"`
	// NoProxy lists hosts reached directly, in the form of NO_PROXY, where the environment names none.
	NoProxy string `json:"no_proxy"`
	// HeaderTimeout is how long to wait for the first byte of an answer; "0" for ever.
	HeaderTimeout Duration `json:"header_timeout"`
	// IdleTimeout is how long an answer may stand still between two bytes; "0" for ever.
	IdleTimeout Duration `json:"idle_timeout"`
}

// Backup makes snapshots by itself.
type Backup struct {
	// Every is the interval, such as daily or 6h; "0" switches it off.
	Every Duration `json:"every"`
	// Keep is how many snapshots are kept.
	Keep int `json:"keep" min:"1" max:"1000"`
}

// Telemetry is what may be measured from outside.
type Telemetry struct {
	// Metrics opens /metrics to holders of the token.
	Metrics bool `json:"metrics"`
	// OTLPURL receives traces of runs over OTLP/HTTP; empty: none.
	OTLPURL string `json:"otlp_url"`
}

// Log is the diary for operators.
type Log struct {
	// Level is the least level written. MERCURY_LOG overrides it.
	Level string `json:"level" enum:"debug,info,warn,error"`
}

// Default returns the configuration of an empty file.
func Default() *Config {
	return &Config{
		Name:        "Mercury",
		Web:         Web{Listen: "127.0.0.1:6174"},
		Workspace:   "~/mercury",
		Permissions: Permissions{Mode: "guided"},
		Sandbox:     Sandbox{Level: "auto"},
		Budget:      Budget{DailyTokens: 1_000_000},
		Limits: Limits{
			Turn: Limit{Steps: 50, Tokens: 300_000, Minutes: 20},
			Code: Limit{Steps: 300, Tokens: 3_000_000, Minutes: 240},
		},
		Bots:      Bots{DailyTokens: 5_000_000, FleetDailyTokens: 20_000_000},
		Heartbeat: Heartbeat{Every: Duration(time.Hour)},
		Memory:    Memory{Learn: true},
		WebSearch: WebSearch{Provider: "duckduckgo"},
		GitHub:    GitHub{APIURL: "https://api.github.com"},
		Spotify:   Spotify{RedirectURI: "http://127.0.0.1:6174/spotify/callback"},
		HTTP: HTTP{
			HeaderTimeout: Duration(3 * time.Minute),
			IdleTimeout:   Duration(2 * time.Minute),
		},
		Backup: Backup{Every: Duration(24 * time.Hour), Keep: 7},
		Log:    Log{Level: "info"},
	}
}

// defaulter is a part that may be absent and has defaults once it is there.
type defaulter interface{ setDefaults() }

func (t *Telegram) setDefaults() { t.APIURL = "https://api.telegram.org" }
func (d *Discord) setDefaults()  { d.APIURL = "https://discord.com/api/v10" }
func (s *Slack) setDefaults()    { s.APIURL = "https://slack.com/api" }
