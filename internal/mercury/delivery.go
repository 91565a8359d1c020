package mercury

import "time"

// DeliveryKind says why a delivery exists. Only answers can be held or
// superseded.
type DeliveryKind string

const (
	AnswerDelivery   DeliveryKind = "answer"
	QuestionDelivery DeliveryKind = "question"
	NoticeDelivery   DeliveryKind = "notice"
	CommandDelivery  DeliveryKind = "command" // a command's reply
	DirectDelivery   DeliveryKind = "direct"  // sent by a tool or a schedule
)

// DeliveryState is where a delivery, or one part of it, stands.
type DeliveryState string

const (
	DeliveryPending      DeliveryState = "pending"
	DeliveryHeld         DeliveryState = "held"          // a newer input came first; Reason says so
	DeliverySending      DeliveryState = "sending"       // committed before the channel is called
	DeliverySent         DeliveryState = "sent"          // the channel returned a receipt
	DeliveryUnknown      DeliveryState = "unknown"       // nobody knows; repeated only on a person's word
	DeliveryRefused      DeliveryState = "refused"       // the channel said no: nothing was shown
	DeliverySuperseded   DeliveryState = "superseded"    // a later answer says it all
	DeliveryCancelled    DeliveryState = "cancelled"     //
	DeliveryNotAttempted DeliveryState = "not_attempted" // parts only: an earlier one did not go out
)

// Delivery is a stored intent to show text or files at one address. Requests
// are unique per address: the same request with the same content is the same
// delivery, with other content a conflict.
type Delivery struct {
	ID             string
	Address        string // "channel/place"
	ConversationID string
	RunID          string
	RequestID      string
	Digest         string
	Kind           DeliveryKind
	EntrySeq       int64 // answer: the entry it shows
	QuestionID     string
	Text           string
	Files          []File
	State          DeliveryState
	Reason         string
	SupersededBy   string
	Receipt        string // of the last part sent
	NotBefore      time.Time
	Attempts       int    // proven not-sent tries of the part in hand
	Parts          []Part // frozen at the first claim
	CreatedAt      time.Time
	SettledAt      time.Time
}

// Part is one message of a delivery: a split text, or one file. Each is
// marked sending alone, in order.
type Part struct {
	N         int
	Text      string
	File      *File
	State     DeliveryState
	AttemptID string // a late receipt with the same attempt may turn unknown into sent
	Owner     string
	Receipt   string
	Error     string
	At        time.Time
}
