/** Kills Espalier's processes on the cluster at once and silently, as a failing machine would. */
import { setTimeout as sleep } from 'node:timers/promises'
import { systemNamespace } from '../../crds/index.ts'
import type { KindProvider } from '../providers/kind.ts'
import type { Chance } from './chance.ts'

const driverNamespace = 'espalier-csi'

const operators = ({ cluster }: KindProvider) =>
  cluster.list('Pod', { namespace: systemNamespace, labels: { 'app.kubernetes.io/component': 'operator' } })
const drivers = ({ cluster }: KindProvider) =>
  cluster.list('Pod', { namespace: driverNamespace, labels: { 'app.kubernetes.io/name': 'espalier-csi' } })

type Pods = Awaited<ReturnType<typeof operators>>

/** Whether a pod is ready. A pod that is not ready is not killed: on a slow machine, it would never become ready. */
const isUp = ({ metadata, status }: Pods['items'][number]): boolean =>
  metadata.deletionTimestamp === undefined && status?.containerStatuses?.every(({ ready }) => ready) === true

async function remove({ kubectl }: KindProvider, namespace: string, { items }: Pods): Promise<void> {
  const names = items.filter(isUp).map(pod => pod.metadata.name)
  const command = ['delete', 'pod', '-n', namespace, '--grace-period=0', '--force', '--ignore-not-found']
  if (names.length > 0) await kubectl([...command, ...names])
}

export const killOperators = async (provider: KindProvider): Promise<void> =>
  remove(provider, systemNamespace, await operators(provider))

/** The leader; the first operator pod if there is no leader. */
async function killLeader(provider: KindProvider): Promise<void> {
  const lease = await provider.cluster.get('Lease', { namespace: systemNamespace, name: 'espalier-operator' })
  const leader = lease?.spec?.holderIdentity?.split('_')[0]
  const { items, ...rest } = await operators(provider)
  const [victim = items[0]] = items.filter(pod => pod.metadata.name === leader)
  await remove(provider, systemNamespace, { ...rest, items: victim === undefined ? [] : [victim] })
}

const killDriver = async (provider: KindProvider): Promise<void> =>
  remove(provider, driverNamespace, await drivers(provider))

/**
 * Kills the process; the pod stays. If its container was restarted before, its next restart is delayed, so the pod is
 * deleted instead.
 */
async function killDriverProcess(provider: KindProvider): Promise<void> {
  const { items } = await drivers(provider)
  const statuses = items.flatMap(pod => pod.status?.containerStatuses ?? []).filter(({ name }) => name === 'driver')
  const running = statuses.find(({ restartCount, state }) => restartCount === 0 && state?.running !== undefined)
  const container = running?.containerID?.replace(/^containerd:\/\//, '')
  if (container === undefined) return killDriver(provider)
  await provider.onNode(`ctr -n k8s.io tasks kill --signal SIGKILL ${container}`)
}

const victims = {
  'all operators': killOperators,
  'the leader': killLeader,
  'the driver': killDriver,
  "the driver's process": killDriverProcess,
}
type Victim = keyof typeof victims

/** Kills one process after another until it is stopped. @returns the number of kills of each process */
export function startKills(provider: KindProvider, chance: Chance, pauseMs: [number, number]) {
  const names = Object.keys(victims) as [Victim, ...Victim[]]
  const counts: Partial<Record<Victim, number>> = {}
  const stop = new AbortController()
  const killing = (async () => {
    for (;;) {
      await sleep(chance.between(...pauseMs), undefined, { signal: stop.signal })
      const victim = chance.of(names)
      await victims[victim](provider)
      counts[victim] = (counts[victim] ?? 0) + 1
    }
  })()
  const stopped = killing.catch(error => {
    if (!stop.signal.aborted) throw error
  })
  stopped.catch(() => {}) // the caller of the returned function gets the error
  return async (): Promise<typeof counts> => {
    stop.abort()
    await stopped
    return counts
  }
}
