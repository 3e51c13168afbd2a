#!/bin/bash
# Process 1 of a node without systemd. It makes the kernel's file systems writable, loads the images, and keeps
# containerd and kubelet running. Kubelet starts once kind has written its configuration.
set -u

mount --make-rshared /
mount -o remount,rw /sys
for hierarchy in /sys/fs/cgroup/*/; do mount -o remount,rw "$hierarchy" 2>/dev/null; done
mkdir -p /run/containerd /opt/cni/bin
cp --no-clobber /usr/lib/cni/* /opt/cni/bin/

# The resolver of pods (kubelet's resolvConf). With the engine's own resolver, CoreDNS would forward queries to itself. No
# pod needs a name outside the cluster, so the resolver is a documentation address (RFC 5737), which never answers. The
# node itself keeps the engine's resolver, because workers need it to find the control plane.
echo 'nameserver 192.0.2.1' >/run/resolv.conf

# Volumes are loop devices. Devices that the machine creates later do not appear in this container, so create them now.
for number in $(seq 0 63); do [ -e "/dev/loop$number" ] || mknod -m 660 "/dev/loop$number" b 7 "$number"; done

echo 'Reached target Multi-User System' # kind waits for this line

(while true; do containerd >>/var/log/containerd.log 2>&1; sleep 1; done) &
until ctr version >/dev/null 2>&1; do sleep 0.1; done
if [ ! -e /kind/images.loaded ]; then
  for archive in /kind/images/*.tar; do ctr --namespace k8s.io images import --local "$archive" >/dev/null; done
  touch /kind/images.loaded
fi

while true; do
  if [ -f /var/lib/kubelet/config.yaml ]; then
    KUBELET_KUBEADM_ARGS=
    [ -f /var/lib/kubelet/kubeadm-flags.env ] && . /var/lib/kubelet/kubeadm-flags.env
    # shellcheck disable=SC2086 # flags, each a word
    kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \
      --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS >>/var/log/kubelet.log 2>&1
  fi
  sleep 0.5
done
