/** kind's configuration of the cluster (kind.x-k8s.io/v1alpha4). Pure. */
import { stringify } from 'yaml'
import type { ClusterFile } from './cluster.ts'
import { type ClusterPorts, everyPort } from './ports.ts'

/** Settings for a node without systemd, with the cgroupfs driver, and without some capabilities. */
const selfMadePatches = [
  {
    kind: 'KubeletConfiguration',
    cgroupDriver: 'cgroupfs',
    cgroupRoot: '/',
    resolvConf: '/run/resolv.conf',
    failCgroupV1: false,
    failSwapOn: false,
    enforceNodeAllocatable: [],
    featureGates: { KubeletInUserNamespace: true },
  },
  {
    kind: 'KubeProxyConfiguration',
    conntrack: { maxPerCore: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  },
]

export function kindConfiguration(flavour: ClusterFile['flavour'], ports: ClusterPorts, workers = 0): string {
  const extraPortMappings = everyPort(ports).map(port => ({
    containerPort: port,
    hostPort: port,
    listenAddress: '127.0.0.1',
    protocol: 'TCP',
  }))
  const selfMade = flavour === 'self-made'
  return stringify({
    kind: 'Cluster',
    apiVersion: 'kind.x-k8s.io/v1alpha4',
    networking: {
      kubeProxyMode: 'nftables',
      podSubnet: '10.244.0.0/16',
      ...(selfMade ? { disableDefaultCNI: true } : {}),
    },
    nodes: [
      { role: 'control-plane', extraPortMappings },
      ...Array.from({ length: workers }, () => ({ role: 'worker' })),
    ],
    ...(selfMade ? { kubeadmConfigPatches: selfMadePatches.map(patch => stringify(patch)) } : {}),
  })
}
