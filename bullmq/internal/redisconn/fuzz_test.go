package redisconn

import (
	"strings"
	"testing"
)

func FuzzClientList(f *testing.F) {
	f.Add("id=3 addr=127.0.0.1:1 name=bull:ZnV6emVk age=1 cmd=bzpopmin\nid=4 name=bull:ZnV6emVk:w:painter\r\nid=5 name=bull:ZnV6emVk:qe\n")
	f.Add("= == name name= \xff\x00 name=bull:ZnV6emVk:w:=a=b\n\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		found := readClients(text)
		if len(found) > strings.Count(text, "\n")+1 {
			t.Fatalf("%d clients in %q", len(found), text)
		}
		for _, client := range found {
			if client.Fields["name"] != client.Name || !strings.Contains(text, client.Name) {
				t.Fatalf("%+v", client)
			}
		}
	})
}
