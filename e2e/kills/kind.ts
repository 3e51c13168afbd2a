/** Kills on kind: the leading operator, an API server, and the Postgres or the pod of a database. */
import type { Kinds } from '../../cluster/index.ts'
import { labels, systemNamespace } from '../../crds/index.ts'
import { eventually } from '../client.ts'
import { everyImage } from '../kubernetes/storage.ts'
import { startKind } from '../providers/kind.ts'
import type { Kill, Target } from './target.ts'

type Pod = Kinds['Pod']
const tenant = 'kills'
/**
 * The kubelet waits longer after each restart of a container. After this number of starts, the pod is deleted instead.
 */
const mostRestarts = 2

export async function startKindTarget(): Promise<Target> {
  const provider = await startKind()
  const { cluster, kubectl, onNode } = provider
  const namespace = provider.namespace(tenant)
  const before = await everyImage(provider)

  const statusOf = (pod: Pod, container: string) =>
    pod.status?.containerStatuses?.find(({ name, state }) => name === container && state?.running !== undefined)
  const isUp = (pod: Pod, container: string): boolean =>
    pod.metadata.deletionTimestamp === undefined && statusOf(pod, container) !== undefined
  const ofComponent = async (component: string): Promise<Pod[]> =>
    (
      await cluster.list('Pod', {
        namespace: systemNamespace,
        labels: { 'app.kubernetes.io/component': component },
      })
    ).items.filter(pod => isUp(pod, component))
  const postgresOf = async (ids: readonly string[]): Promise<Pod[]> =>
    (await cluster.list('Pod', { namespace })).items.filter(
      pod => isUp(pod, 'postgres') && ids.includes(pod.metadata.labels?.[labels.database] ?? ''),
    )

  async function deletePod({ metadata }: Pod): Promise<void> {
    const grace = ['--grace-period=0', '--force', '--ignore-not-found', '--wait=false']
    await kubectl(['delete', 'pod', '-n', metadata.namespace ?? '', metadata.name, ...grace])
  }
  /** Kills the container's first process. The pod stays. */
  async function killProcess(pod: Pod, container: string): Promise<void> {
    const status = statusOf(pod, container)
    const id = status?.containerID?.replace(/^containerd:\/\//, '')
    if (id === undefined || (status?.restartCount ?? 0) >= mostRestarts) return deletePod(pod)
    await onNode(`ctr -n k8s.io tasks kill --signal SIGKILL ${id} || true`)
  }
  const kill = (name: string, find: () => Promise<Pod[]>, strike: (pod: Pod) => Promise<void>): Kill => ({
    name,
    async strike(chance) {
      const [first, ...others] = await find()
      if (first === undefined) return false
      await strike(chance.of([first, ...others]))
      return true
    },
  })
  async function leaders(): Promise<Pod[]> {
    const lease = await cluster.get('Lease', { namespace: systemNamespace, name: 'espalier-operator' })
    const leader = lease?.spec?.holderIdentity?.split('_')[0]
    return (await ofComponent('operator')).filter(({ metadata }) => metadata.name === leader)
  }

  return {
    api: () => provider.client(tenant),
    clientAddress: provider.clientAddress,
    killsWithinMs: 10_000,
    kills: ids => [
      kill("the leading operator's process", leaders, pod => killProcess(pod, 'operator')),
      kill(
        "an API server's process",
        () => ofComponent('api'),
        pod => killProcess(pod, 'api'),
      ),
      kill(
        'the postmaster of a database with writers',
        () => postgresOf(ids),
        pod => killProcess(pod, 'postgres'),
      ),
      kill('the pod of a database with writers', () => postgresOf(ids), deletePod),
    ],
    async leftover() {
      let remaining: string[] = []
      const isClean = async () => {
        remaining = (await everyImage(provider)).filter(line => !before.includes(line))
        return remaining.length === 0
      }
      await eventually('every new object, image and mount is deleted', isClean, 180_000).catch(() => {})
      return remaining
    },
    stop: () => provider.stop(),
  }
}
