/**
 * The cluster that `make kind-up` created, with Espalier installed by its chart. All test files share it. Each file
 * creates its own tenants, so that it sees no other objects, and deletes the objects that it created.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { pino } from 'pino'
import { connectKubernetes } from '../../cluster/kubernetes/index.ts'
import { childNames, systemNamespace, tenantNamespace } from '../../crds/index.ts'
import { type Connection, createApiClient, eventually } from '../client.ts'
import { testNamespace } from '../kind/addons.ts'
import { readCluster } from '../kind/cluster.ts'
import { readSettings } from '../kind/settings.ts'
import { mintToken, tokenSecret } from '../kind/tokens.ts'
import type { Provider } from './provider.ts'

const run = promisify(execFile)
const outputLimit = 64 << 20

/** A pod with psql, for connections from inside the cluster. */
export type ClientPod = {
  name: string
  address: string
  psql(connection: Connection, statement: string): Promise<string>
  remove(): Promise<void>
}

export type KindProvider = Provider & {
  nodeName: string
  /** The node's address inside the cluster. */
  nodeAddress: string
  /** @returns standard output. @throws with kubectl's output */
  kubectl(args: string[], input?: string): Promise<string>
  /** Runs a command on the node itself, as its administrator. @returns standard output */
  onNode(command: string): Promise<string>
  clientPod(name: string): Promise<ClientPod>
  /** Stops the API server; the returned function starts it and waits until it serves. */
  stopApiServer(): Promise<() => Promise<void>>
  /** Makes the node silent while everything on it continues. The returned function ends this. */
  silenceNode(): Promise<() => Promise<void>>
  /** Blocks all writes to a database's volume; the returned function unblocks them. */
  freezeVolume(namespace: string, id: string): Promise<() => Promise<void>>
}

export async function startKind(): Promise<KindProvider> {
  const kind = await readCluster(readSettings(process.env))
  const { node, programs, ports, dockerHost } = kind
  const logger = pino({ level: process.env.ESPALIER_LOG ?? 'error' }, pino.destination(2))
  const cluster = await connectKubernetes({ fieldManager: 'kubectl', kubeconfig: kind.kubeconfig, logger })
  const suffix = randomBytes(4).toString('hex')
  const own = (tenant = 'e2e') => `${tenant}-${suffix}`
  const token: Provider['token'] = async (tenant, claims) => {
    const secret = await cluster.get('Secret', { namespace: systemNamespace, name: tokenSecret })
    const shared = Buffer.from(secret?.data?.sharedSecret ?? '', 'base64').toString()
    return mintToken(shared, own(tenant), claims)
  }
  const api = `https://127.0.0.1:${ports.api}`

  const kubectl: KindProvider['kubectl'] = async (args, input) => {
    const child = run(programs.kubectl, ['--kubeconfig', kind.kubeconfig, ...args], { maxBuffer: outputLimit })
    child.child.stdin?.end(input ?? '')
    return (await child).stdout
  }
  const onNode: KindProvider['onNode'] = async command => {
    const args = ['--host', dockerHost, 'exec', node, 'sh', '-c', command]
    return (await run('docker', args, { maxBuffer: outputLimit })).stdout.trim()
  }

  return {
    api,
    cluster,
    clientAddress: kind.clientAddress,
    nodeName: node,
    nodeAddress: kind.nodeAddress,
    namespace: tenant => tenantNamespace(own(tenant)),
    client: async tenant => createApiClient(api, await token(tenant)),
    token,
    kubectl,
    onNode,

    async postmaster(namespace, id) {
      const pod = await cluster.get('Pod', { namespace, name: childNames.pod(id, 1) })
      const status = pod?.status?.containerStatuses?.find(each => each.name === 'postgres')
      const container = status?.containerID?.replace(/^containerd:\/\//, '')
      if (container === undefined || status?.state?.running === undefined) throw new Error('no postmaster')
      return {
        id: container,
        kill: async () => void (await onNode(`ctr -n k8s.io tasks kill --signal SIGKILL ${container}`)),
      }
    },

    async clientPod(name) {
      const image = 'localhost/espalier-postgres:17'
      const target = ['-n', testNamespace, name]
      await kubectl(['run', '-n', testNamespace, name, `--image=${image}`, '--command', '--', 'sleep', '3600'])
      await kubectl(['wait', '--for=condition=Ready', 'pod', ...target, '--timeout=60s'])
      const address = await kubectl(['get', 'pod', ...target, '-o', 'jsonpath={.status.podIP}'])
      return {
        name,
        address,
        psql({ username, password, host, port, database }, statement) {
          const uri = `postgresql://${username}@${host}:${port}/${database}?sslmode=require`
          // The password is passed on standard input, because other users can read a command line.
          const script = 'read -r PGPASSWORD; export PGPASSWORD; exec psql -XAt "$0" -c "$1"'
          return kubectl(['exec', '-i', ...target, '--', 'sh', '-c', script, uri, statement], `${password}\n`)
        },
        async remove() {
          await kubectl(['delete', 'pod', ...target, '--grace-period=0', '--force'])
        },
      }
    },

    async stopApiServer() {
      const manifest = '/etc/kubernetes/manifests/kube-apiserver.yaml'
      const aside = '/etc/kubernetes/kube-apiserver.yaml.aside'
      await onNode(`mv ${manifest} ${aside}`)
      const answers = () =>
        kubectl(['get', '--raw', '/readyz', '--request-timeout=2s']).then(
          () => true,
          () => false,
        )
      await eventually('the API server is stopped', async () => !(await answers()))
      return async () => {
        await onNode(`mv ${aside} ${manifest}`)
        await eventually('the API server answers', answers, 180_000)
      }
    },

    async silenceNode() {
      await onNode('kill -STOP $(pidof kubelet)')
      return async () => void (await onNode('kill -CONT $(pidof kubelet)'))
    },

    async freezeVolume(namespace, id) {
      const claim = await cluster.get('PersistentVolumeClaim', { namespace, name: childNames.claim(id, 1) })
      const volume = claim?.spec?.volumeName
      if (volume === undefined) throw new Error('the claim has no volume')
      const mounted = `$(findmnt -rno TARGET | grep '/pods/.*/${volume}/mount$' | head -1)`
      await onNode(`fsfreeze -f ${mounted}`)
      return async () => void (await onNode(`fsfreeze -u ${mounted}`))
    },

    async stop() {
      await cluster.close()
    },
  }
}
