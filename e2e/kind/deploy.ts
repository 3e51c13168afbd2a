/**
 * `make kind-install`, also run by `make e2e PROVIDER=kind` before its tests. Builds and loads images, and installs
 * both charts on the running cluster. When it is run again, it upgrades the parts that have changed.
 */
import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { systemNamespace } from '../../crds/index.ts'
import { logged, type Run } from '../../images/command.ts'
import { imageIds } from '../../images/plan.ts'
import { type Kubectl, kubectlOf } from './addons.ts'
import { type ClusterFile, readCluster } from './cluster.ts'
import { say, script } from './script.ts'
import { pathsOf, readSettings, root, type Settings } from './settings.ts'
import { tokenSecret } from './tokens.ts'

/**
 * The chart's values that depend on this cluster's ports and addresses. This machine reaches the first node, and
 * traffic from outside stays on that node, so API and gateway run there. Databases may be imported from other databases
 * of this cluster, at that node's address.
 */
function valuesOf({ ports, node, nodeAddress }: ClusterFile, { workers }: Settings): string {
  const here = workers === 0 ? {} : { nodeSelector: { 'kubernetes.io/hostname': node } }
  return stringify({
    api: { service: { nodePort: ports.api }, ...here },
    gateway: { ports: ports.gateway, https: { nodePort: ports.https }, ...here },
    imports: { from: [`${nodeAddress}/32`] },
  })
}

/** Loads the archives whose image the node lacks. @returns whether it loaded one */
async function loadImages(run: Run, cluster: ClusterFile, archives: string): Promise<boolean> {
  const env = { ...process.env, DOCKER_HOST: cluster.dockerHost }
  let isAnyNew = false
  for (const id of ['espalier', 'postgres-16', 'postgres-17', 'postgres-18']) {
    const archive = join(archives, `${id}.tar`)
    const image = await readFile(`${archive}.image`, 'utf8').catch(() => undefined)
    if (image === undefined) continue
    const marker = `/kind/loaded-${id}`
    const onNode = (...command: string[]) =>
      run('docker', ['--host', cluster.dockerHost, 'exec', cluster.node, ...command])
    if ((await onNode('cat', marker).catch(() => '')).trim() === image.trim()) continue
    say(`loading ${image.split(' ')[0]}`)
    await run(cluster.programs.kind, ['load', 'image-archive', archive, '--name', cluster.name], { env })
    await onNode('sh', '-c', `printf %s '${image.trim()}' > ${marker}`)
    isAnyNew = true
  }
  return isAnyNew
}

async function ensureNamespace(kubectl: Kubectl): Promise<void> {
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' }
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: systemNamespace, labels } }
  await kubectl(['apply', '--server-side', '--filename', '-'], stringify(namespace))
}

/** Creates the secret that signs tokens, if it does not exist yet. */
async function ensureTokenSecret(kubectl: Kubectl): Promise<void> {
  const found = await kubectl(['get', 'secret', tokenSecret, '--namespace', systemNamespace, '--ignore-not-found'])
  if (found !== '') return
  const stringData = { sharedSecret: randomBytes(32).toString('hex') }
  const secret = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: tokenSecret, namespace: systemNamespace },
    stringData,
  }
  await kubectl(['create', '--filename', '-'], stringify(secret))
}

async function main(): Promise<void> {
  const settings = readSettings(process.env)
  const cluster = await readCluster(settings)
  const run = logged(pathsOf(settings).log)
  const kubectl = kubectlOf(run, cluster)
  const helm = (...args: string[]) => run(cluster.programs.helm, ['--kubeconfig', cluster.kubeconfig, ...args])

  const ids = imageIds.filter(id => id !== 'embedded')
  await run(process.execPath, [join(root, 'images/build.ts'), '--only', ids.join(',')], { cwd: root })
  const isAnyNew = await loadImages(run, cluster, join(settings.home, 'images'))

  say('installing the charts')
  const csi = ['espalier-csi', join(root, 'charts/espalier-csi'), '--namespace', 'espalier-csi', '--create-namespace']
  await helm('upgrade', '--install', ...csi, '--wait', '--timeout', '180s')
  await ensureNamespace(kubectl)
  await ensureTokenSecret(kubectl)
  const values = join(settings.home, 'values.yaml')
  await writeFile(values, valuesOf(cluster, settings))
  const files = ['--values', join(root, 'e2e/kind/values.yaml'), '--values', values]
  const chart = ['espalier', join(root, 'charts/espalier'), '--namespace', systemNamespace]
  await helm('upgrade', '--install', ...chart, ...files, '--wait', '--timeout', '300s')

  // An unchanged tag causes no rollout, so pods with a new image are replaced explicitly.
  if (isAnyNew) {
    const deployments = ['operator', 'api', 'gateway'].map(name => `deployment/espalier-${name}`)
    await kubectl(['rollout', 'restart', ...deployments, '--namespace', systemNamespace])
    await kubectl(['rollout', 'restart', 'daemonset/espalier-csi', '--namespace', 'espalier-csi'])
    for (const name of deployments) {
      await kubectl(['rollout', 'status', name, '--namespace', systemNamespace, '--timeout=300s'])
    }
    await kubectl(['rollout', 'status', 'daemonset/espalier-csi', '--namespace', 'espalier-csi', '--timeout=120s'])
  }
  say(`Espalier is installed: https://127.0.0.1:${cluster.ports.api}`)
}

await script(main)
