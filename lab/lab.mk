# The lab: a virtual GPU node and the Kubernetes it joins. `make lab-ssh CMD="uptime"`, `make lab-kubectl CMD="get pods"`.
LAB_NODES ?= 1
NODE ?= numaforge-lab-1
DRIVER ?= cpu
ADMISSIONS ?= 1000
KUBELETS ?= all
REHEARSED ?= 1.30,1.37
EXPLAINED ?= 2000
SEED ?= 1
FUZZ ?= 120

# What `make test` leaves out, in parts that can be run alone.
PARTS := dependencies hosts oracle kubelets rehearsals admissions fleet workers rollout maintenance images claims alerts roots fuzz packages
PART  ?= $(PARTS)
LONG  := $(PYTHON) -m pytest -m long --durations 20

.PHONY: test-all $(PARTS:%=test-%) test-second-scheduler kubelets lab-build lab-up lab-down lab-reset lab-status lab-ssh lab-kubectl lab-driver

lab-build: setup ## build the lab's binaries and image without starting anything
	@$(PYTHON) -m lab build

lab-up: setup ## bring up the lab (LAB_NODES=3 for three workers)
	@$(PYTHON) -m lab up --nodes $(LAB_NODES)

lab-down: setup ## end every process of the lab
	@$(PYTHON) -m lab down

lab-reset: setup ## put the lab's nodes and cluster back as they were when first Ready
	@$(PYTHON) -m lab reset

lab-status: setup ## show the lab's nodes and processes
	@$(PYTHON) -m lab status

lab-ssh: setup ## log in to a node of the lab (NODE=numaforge-lab-1 CMD="...")
	@$(PYTHON) -m lab ssh $(NODE) $(CMD)

lab-kubectl: setup ## run kubectl against the lab's cluster (CMD="get nodes")
	@$(PYTHON) -m lab kubectl $(CMD)

lab-driver: setup ## run a driver of claims on the first node, or end it (DRIVER=gpu, DRIVER=cpu ARGUMENTS="--group-by=socket", ARGUMENTS=stop)
	@$(PYTHON) -m lab driver $(DRIVER) $(ARGUMENTS)

kubelets: setup ## build kubelets 1.30 to 1.37
	@$(PYTHON) -m lab kubelets

test-all: setup ## what takes long, or some of it (PART="dependencies hosts oracle kubelets rehearsals admissions fleet workers rollout maintenance images claims alerts roots fuzz packages")
	@set -e; for part in $(PART); do $(MAKE) --no-print-directory test-$$part; done

test-hosts: setup ## over SSH: a change of every part that is killed, powered off and rebooted at every step; what roles and commands do in more cases
	@$(LONG) -n 3 --dist worksteal tests/ssh $(addprefix tests/unit/,commands lib report rollout/test_node.py test_mistakes.py test_pipelines.py)

test-oracle: setup ## 47,000 configurations and 27,000 pods against the kubelet's own code, and 5,000 against the RDMA plugin's; 10,000 plans against a second reading of the machines, and those for older kubelets (ORACLE_MINORS="1.36" ORACLE_SCALE=2)
	@$(LONG) -s tests/oracle tests/machines tests/unit/planning/test_remedies.py

test-kubelets: setup ## `check` against all eight kubelets, or some (KUBELETS="1.36,1.37"); renews the record that docs/check.md quotes
	@NUMAFORGE_KUBELETS=$(KUBELETS) NUMAFORGE_KUBELET_RECORD=docs/kubelets.json $(LONG) tests/lab/test_kubelets.py
	@$(PYTHON) -m docs.check_examples

test-rehearsals: setup ## 60 configurations that kubelets 1.30 and 1.37 rehearse as they really start (REHEARSED=1.37); a rehearsal that is killed, reset, on a full disk, with CRI-O, at an image's first boot
	@NUMAFORGE_REHEARSED=$(REHEARSED) $(PYTHON) -m pytest -m '' -n 2 --dist worksteal --durations 20 $(addprefix tests/lab/test_rehearsal,.py _runtimes.py _verdicts.py _boot.py)

test-admissions: setup ## random pods, `admit` and `cluster explain` against the live kubelet (ADMISSIONS=5000 EXPLAINED=2000 SEED=2)
	@NUMAFORGE_ADMISSIONS=$(ADMISSIONS) NUMAFORGE_EXPLAINED=$(EXPLAINED) NUMAFORGE_SEED=$(SEED) $(PYTHON) -m pytest -m '' \
		tests/lab/test_admission_live.py tests/lab/test_explain_live.py tests/unit/cluster/explain/test_random_pods.py

test-fleet: setup ## 300 nodes on a real API server, shards with one budget, a Job whose shard is killed; members of a control plane that stop; a server below a path
	@$(LONG) $(addprefix tests/lab/test_,rollout_fleet.py rollout_faults.py rollout_job.py control_planes.py gang_beside_kwok.py kubectl_cluster.py schedulers.py)

test-workers: setup ## three virtual workers, pods that move between them; a lab that is interrupted
	@$(LONG) tests/lab/test_rollout_workers.py tests/lab/test_bring_up.py

test-rollout: setup ## a roll-out on the virtual node that is killed, delayed, cut off at every moment; random faults over 2,000 nodes in memory
	@$(LONG) tests/unit/rollout/test_simulation.py
	@$(LONG) -n 2 --dist loadfile $(addprefix tests/lab/test_,impostors.py rollout.py rollout_hostile.py measure.py transaction.py configz.py site.py verify.py wheel.py devices.py proof.py living_pods.py pods.py watch.py)

test-second-scheduler: setup ## scheduler-plugins beside the lab's own scheduler (SCHEDULER_PLUGINS=clone); renews the record that docs/cluster.md shows
	@NUMAFORGE_SCHEDULER_PLUGINS=$(SCHEDULER_PLUGINS) NUMAFORGE_SCHEDULER_RECORD=docs/second-scheduler.json $(LONG) tests/lab/test_second_scheduler.py
	@$(PYTHON) -m docs.picture_examples

test-images: setup ## two machines boot from one image and plan themselves; first boots that are cut off, and with what is amiss; roots of every release and of RPM; cloud-init and kubeadm join; mkosi; builders' templates
	@$(LONG) $(addprefix tests/lab/test_,image.py bake.py bake_rpm.py cloud_init.py mkosi.py builders.py)

test-claims: setup ## the drivers of dynamic resource allocation on the live kubelet: what they publish, what pods with claims get
	@$(LONG) tests/lab/test_dra_live.py

test-alerts: setup ## each alert in promtool's tests, rules that are wrong on purpose, the watch's metrics
	@$(LONG) $(addprefix tests/lab/test_,alert_rules.py watch_metrics.py)

test-roots: setup ## what is written, read by the programs of Debian 12 and 13, Ubuntu 22.04, 24.04 and 26.04; a kernel with config_acs
	@$(LONG) tests/roots

test-fuzz: setup ## hours of mutated documents, hosts and files against every parser, 200,000 for the commands; what is found stays in tests/fuzz/corpus (FUZZ=120 SEED=2)
	@NUMAFORGE_FUZZ=$(FUZZ) NUMAFORGE_FUZZ_SEED=$(SEED) $(PYTHON) -m pytest -m '' -n 2 --timeout 14400 --durations 20 tests/fuzz

test-maintenance: setup ## a maintenance with a reboot on the virtual node that is reset at every step, two labs at once; the host's settings before and after a boot, and an uninstall; the memory of a tray's GPUs
	@$(LONG) -n 2 --dist worksteal $(addprefix tests/lab/test_,reboot.py mig.py lab_node.py lab_cluster.py reload.py nvml.py rescue.py confirm.py between_plans.py)
	@$(LONG) tests/lab/test_host.py tests/lab/test_uninstall.py tests/lab/test_tray.py

test-packages: setup ## the bundle, a release that is built twice and installed, and a node in the hands of the next version
	@$(LONG) tests/wheel
