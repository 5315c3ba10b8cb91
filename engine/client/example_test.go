package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	"nereid/engine/client"
)

// Send an inference and read the values of an output.
func ExampleHTTP_Infer() {
	address, _, stop := serve() // a server with the model add_sub; yours is at "http://localhost:8000"
	defer stop()

	c, err := client.NewHTTP(address, client.HTTPOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	r, err := c.Infer(context.Background(), &client.Request{
		Model: "add_sub",
		Inputs: []client.Tensor{
			client.Of("INPUT0", []int32{5, 7, 9}, 1, 3),
			client.Of("INPUT1", []int32{1, 2, 3}, 1, 3),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	sums, err := client.Values[int32](r.Output("OUTPUT0"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sums)
	// Output: [6 9 12]
}

// A decoupled model may give any number of responses to a request.
func ExampleGRPC_Stream() {
	_, address, stop := serve() // yours is at "localhost:8001"
	defer stop()

	c, err := client.NewGRPC(address, client.GRPCOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	s, err := c.Stream(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	err = s.Send(&client.Request{
		Model: "repeat",
		Inputs: []client.Tensor{
			client.Of("IN", []int32{10, 20, 30}), client.Of("DELAY", []uint32{0, 0, 0}), client.Of("WAIT", []uint32{0}),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		log.Fatal(err)
	}
	for {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		if r.Err != nil {
			log.Fatal(r.Err)
		}
		out, err := client.Values[int32](r.Output("OUT"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(out[0])
	}
	// Output:
	// 10
	// 20
	// 30
}
