/**
 * Versions for a self-made cluster. They were tested together. csi-provisioner 6.4 is not possible: it needs a module
 * that no proxy has. build/go.mod pins the other programs, such as CoreDNS, kind and Helm, at versions that use
 * Kubernetes' libraries of the release above.
 */
export const kubernetesVersion = 'v1.36.3'
export const snapshotterVersion = 'v8.6.0'
export const provisionerVersion = 'v6.3.0'
export const resizerVersion = 'v2.2.0'

/** Programs by their module in build/, so that shared packages of Kubernetes are compiled once for all of them. */
export const sharedPrograms = {
  'kube-apiserver': 'k8s.io/kubernetes/cmd/kube-apiserver',
  'kube-controller-manager': 'k8s.io/kubernetes/cmd/kube-controller-manager',
  'kube-proxy': 'k8s.io/kubernetes/cmd/kube-proxy',
  'kube-scheduler': 'k8s.io/kubernetes/cmd/kube-scheduler',
  kubeadm: 'k8s.io/kubernetes/cmd/kubeadm',
  kubectl: 'k8s.io/kubernetes/cmd/kubectl',
  kubelet: 'k8s.io/kubernetes/cmd/kubelet',
  etcd: 'go.etcd.io/etcd/server/v3',
  'snapshot-controller': 'github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller',
  'csi-snapshotter': 'github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter',
  'csi-provisioner': 'github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner',
  'csi-resizer': 'github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer',
  coredns: './coredns',
  helm: 'helm.sh/helm/v3/cmd/helm',
  kind: 'sigs.k8s.io/kind',
  runc: './runc',
  pause: './pause',
} as const

const [major = '', minor = ''] = kubernetesVersion.slice(1).split('.')
const versionPackage = 'k8s.io/component-base/version'
/** kubeadm compares these versions with those that it installs. The commit and the date must only exist. */
export const linkerFlags = [
  `${versionPackage}.gitVersion=${kubernetesVersion}`,
  `${versionPackage}.gitMajor=${major}`,
  `${versionPackage}.gitMinor=${minor}`,
  `${versionPackage}.gitTreeState=clean`,
  `${versionPackage}.gitCommit=0000000000000000000000000000000000000000`,
  `${versionPackage}.buildDate=2026-01-01T00:00:00Z`,
]
  .map(assignment => `-X ${assignment}`)
  .join(' ')

/**
 * These programs are built inside a copy of their module: its go.mod excludes versions, which applies only to a main
 * module.
 */
export const containerd = {
  module: 'github.com/containerd/containerd/v2@v2.1.5',
  programs: ['containerd', 'containerd-shim-runc-v2', 'ctr'],
} as const

export type ProgramName = keyof typeof sharedPrograms | (typeof containerd)['programs'][number]
