package permission

import "testing"

func TestEveryShapeIsAnExpression(t *testing.T) {
	for _, s := range shapes {
		if s.re().NumSubexp() < 0 || s.value != nil && s.value().NumSubexp() < 1 {
			t.Errorf("%s: the value that follows it has no group", s.name)
		}
	}
}
