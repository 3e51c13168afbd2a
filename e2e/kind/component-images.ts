/**
 * The images of a self-made cluster, under the names that kubeadm and the charts expect, so that neither must be
 * changed. All except kube-proxy contain one static binary and nothing else.
 */
import type { ProgramName } from './versions.ts'
import { kubernetesVersion, provisionerVersion, resizerVersion, snapshotterVersion } from './versions.ts'

type ComponentImage = {
  name: string
  program: ProgramName
  /** The path at which its users expect the binary. */
  path: string
  entrypoint: boolean
}

const kubernetes = 'registry.k8s.io'
const sidecars = `${kubernetes}/sig-storage`

const sidecar = (program: ProgramName, version: string): ComponentImage => ({
  name: `${sidecars}/${program}:${version}`,
  program,
  path: `/${program}`,
  entrypoint: true,
})

const controlPlane = (['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const).map(
  (program): ComponentImage => ({
    name: `${kubernetes}/${program}:${kubernetesVersion}`,
    program,
    path: `/usr/local/bin/${program}`,
    entrypoint: false,
  }),
)

export const proxyImage = `${kubernetes}/kube-proxy:${kubernetesVersion}`

/** `wanted`: the output of `kubeadm config images list`, which has the versions of etcd and pause. */
export function componentImages(wanted: readonly string[]): ComponentImage[] {
  const named = (component: string): string => {
    const found = wanted.find(name => name.includes(`/${component}:`))
    if (found === undefined) throw new Error(`kubeadm wants no ${component}`)
    return found
  }
  return [
    ...controlPlane,
    { name: named('etcd'), program: 'etcd', path: '/usr/local/bin/etcd', entrypoint: false },
    { name: named('pause'), program: 'pause', path: '/pause', entrypoint: true },
    { name: named('coredns'), program: 'coredns', path: '/coredns', entrypoint: true },
    sidecar('csi-provisioner', provisionerVersion),
    sidecar('csi-snapshotter', snapshotterVersion),
    sidecar('csi-resizer', resizerVersion),
    sidecar('snapshot-controller', snapshotterVersion),
  ]
}
