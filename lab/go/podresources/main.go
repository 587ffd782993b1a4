// Podresources serves the kubelet's pod-resources API on a unix socket, with
// the kubelet's own gRPC library: `podresources SOCKET PODS [refuse]`.
// Each pod has a container with two GPUs, each near to two NUMA nodes, and
// one with none.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
)

type server struct {
	api.UnimplementedPodResourcesListerServer
	pods   int
	refuse bool
}

func (s server) List(context.Context, *api.ListPodResourcesRequest) (*api.ListPodResourcesResponse, error) {
	if s.refuse {
		return nil, status.Error(codes.ResourceExhausted, "rejected by rate limit")
	}
	answer := &api.ListPodResourcesResponse{}
	for pod := range s.pods {
		answer.PodResources = append(answer.PodResources, &api.PodResources{
			Name:      fmt.Sprintf("train-%d", pod),
			Namespace: "team-a",
			Containers: []*api.ContainerResources{
				{Name: "main", CpuIds: []int64{1, 2, 300}, Devices: append(gpu(2*pod), gpu(2*pod+1)...)},
				{Name: "log"},
			},
		})
	}
	return answer, nil
}

func gpu(number int) []*api.ContainerDevices {
	var found []*api.ContainerDevices
	for node := range int64(2) {
		found = append(found, &api.ContainerDevices{
			ResourceName: "nvidia.com/gpu",
			DeviceIds:    []string{fmt.Sprintf("GPU-%036d", number)},
			Topology:     &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: node}}},
		})
	}
	return found
}

func main() {
	pods, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	serving := grpc.NewServer()
	api.RegisterPodResourcesListerServer(serving, server{pods: pods, refuse: len(os.Args) > 3})
	log.Fatal(serving.Serve(listener))
}
