/** How to reach the cluster. `make kind-up` writes this file. */
import { readFile, rename, writeFile } from 'node:fs/promises'
import { z } from 'zod'
import { KindError } from './errors.ts'
import { clusterPorts } from './ports.ts'
import { pathsOf, type Settings } from './settings.ts'

const clusterFile = z.strictObject({
  /** `stock`: kind's own node image; `self-made`: an image built here without a registry. */
  flavour: z.enum(['stock', 'self-made']),
  name: z.string(),
  kubeconfig: z.string(),
  /** The node's container, whose name is also the node's name in the cluster. */
  node: z.string(),
  /** The node's address on the engine's network. */
  nodeAddress: z.string(),
  /** The source address of this machine's connections, as the cluster sees it. */
  clientAddress: z.string(),
  /** The value for DOCKER_HOST. */
  dockerHost: z.string(),
  ports: clusterPorts,
  programs: z.strictObject({ kubectl: z.string(), helm: z.string(), kind: z.string() }),
})
export type ClusterFile = z.output<typeof clusterFile>

/** @throws KindError if no cluster is up */
export async function readCluster(settings: Settings): Promise<ClusterFile> {
  const path = pathsOf(settings).cluster
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    throw new KindError(`no cluster is up: ${path} is not there; run \`make kind-up\``, { cause })
  }
  return clusterFile.parse(JSON.parse(text))
}

export async function writeCluster(settings: Settings, cluster: ClusterFile): Promise<void> {
  const { cluster: path } = pathsOf(settings)
  await writeFile(`${path}.new`, `${JSON.stringify(cluster, null, 2)}\n`)
  await rename(`${path}.new`, path)
}
