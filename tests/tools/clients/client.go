// One request of Go's net/http, its body of a length that is not known beforehand (chunked):
//
//	client URL BODY read|cancel
//
// Prints the status and the body; `cancel` reads the first line of it and gives up.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	go func() {
		io.WriteString(writer, os.Args[2])
		writer.Close()
	}()
	request, err := http.NewRequestWithContext(ctx, "POST", os.Args[1], reader)
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	fmt.Println(response.StatusCode)
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fmt.Println(lines.Text())
		if os.Args[3] == "cancel" {
			break
		}
	}
	cancel()
	response.Body.Close()
}
