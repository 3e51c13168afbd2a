/** Setup for several nodes, so that their pods reach each other. A cluster with a single node does not need it. */
import { z } from 'zod'
import type { Run } from '../../images/command.ts'
import { kubectlOf } from './addons.ts'
import type { ClusterFile } from './cluster.ts'
import { dockerOn } from './engine.ts'

const nodeList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string() }),
      spec: z.object({ podCIDR: z.string(), taints: z.array(z.object({ key: z.string() })).default([]) }),
      status: z.object({ addresses: z.array(z.object({ type: z.string(), address: z.string() })) }),
    }),
  ),
})

const controlPlaneTaint = 'node-role.kubernetes.io/control-plane'

/**
 * Makes the control-plane node run pods as well. Self-made nodes get their own address ranges, and routes to the other
 * nodes.
 */
export async function joinNodes(run: Run, cluster: ClusterFile): Promise<void> {
  const kubectl = kubectlOf(run, cluster)
  // A node that has just joined has no address range yet.
  await kubectl(['wait', 'nodes', '--all', '--for=jsonpath={.spec.podCIDR}', '--timeout=60s'])
  const { items } = nodeList.parse(JSON.parse(await kubectl(['get', 'nodes', '--output', 'json'])))
  for (const { metadata, spec } of items)
    if (spec.taints.some(({ key }) => key === controlPlaneTaint))
      await kubectl(['taint', 'nodes', metadata.name, `${controlPlaneTaint}-`])
  if (cluster.flavour !== 'self-made') return
  const docker = dockerOn(run, cluster.dockerHost)
  const onNode = (node: string, script: string) => docker(['exec', node, 'sh', '-c', script])
  const controlPlane = addressOf(items.find(({ metadata }) => metadata.name === cluster.node))
  for (const { metadata, spec } of items) {
    await onNode(
      metadata.name,
      `sed -i 's|"subnet": "[^"]*"|"subnet": "${spec.podCIDR}"|' /etc/cni/net.d/10-pods.conflist`,
    )
    for (const other of items) {
      const address = addressOf(other)
      if (other.metadata.name !== metadata.name && address !== undefined)
        await onNode(metadata.name, `ip route replace ${other.spec.podCIDR} via ${address}`)
    }
    if (metadata.name === cluster.node) continue
    // Pods on the node's network have its /etc/hosts, but no resolver. Without this line, kube-proxy would not find the
    // API server.
    const line = `${controlPlane} ${cluster.node}`
    await onNode(metadata.name, `grep -qxF '${line}' /etc/hosts || echo '${line}' >>/etc/hosts`)
    const proxy = ['--selector', 'k8s-app=kube-proxy', '--field-selector', `spec.nodeName=${metadata.name}`]
    await kubectl(['delete', 'pod', '--namespace', 'kube-system', ...proxy])
  }
}

type Node = z.output<typeof nodeList>['items'][number]

const addressOf = (node: Node | undefined): string | undefined =>
  node?.status.addresses.find(({ type }) => type === 'InternalIP')?.address
