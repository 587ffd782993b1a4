// The root of the oracle's sources. What it requires stands in the module files of the kubelets beside it, one for each
// minor: it is built with -modfile=../kubelet-1.30/go.mod and so on (lab/oracle.py).
module numaforge.example/lab/oracle
