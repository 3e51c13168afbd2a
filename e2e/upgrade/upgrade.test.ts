/**
 * An upgrade of an installation with ten serving databases. No database is restarted or becomes `modifying`, no Task is
 * created, and no session is closed. If the older version runs services, those of one database are replaced, and no
 * request to them fails. Afterwards no object with data has an owner (garbage collection).
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { labels, type ManagedDatabase } from '../../crds/index.ts'
import { type ApiClient, type Connection, eventually, openTo, query } from '../client.ts'
import { root } from '../kind/settings.ts'
import { type Clients, clientsOf, loadAll } from '../kubernetes/service-clients.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'
import { createServed, fetchingFrom, type Served, stopAll, untilRunning } from '../service-load.ts'
import { monitorSessions, type SessionMonitor } from './session-monitor.ts'

const names = Array.from({ length: 10 }, (_, index) => `serving${index}`)
let provider: KindProvider
let api: ApiClient
let namespace: string
const connections = new Map<string, Connection>()
const ids = new Map<string, string>()
/** The database with services, if the older version runs services. */
let served: { database: Served; clients: Clients } | undefined

beforeAll(async () => {
  provider = await startKind()
  api = await provider.client('upgrade')
  namespace = provider.namespace('upgrade')
  const ip_allowlist = openTo(provider.clientAddress)
  for (const name of names) {
    const { body } = await api.create({ name, pg_version: '17', ip_allowlist })
    ids.set(name, body.id)
    await eventually(
      'the database is available',
      async () => (await api.read(body.id)).body.status === 'available',
      180_000,
    )
    const connection = await api.connection(body.id)
    await query(connection, `CREATE TABLE kept AS SELECT '${name}' AS name`)
    connections.set(name, connection)
  }
  if (!(await runsServices())) return
  const database = await createServed(api, 'served', provider.clientAddress)
  served = { database, clients: await clientsOf(database, await fetchingFrom(provider)) }
})
afterAll(async () => {
  await served?.clients.close()
  if (served !== undefined) await api.remove(served.database.id)
  for (const id of ids.values()) await api.remove(id)
  await provider?.stop()
})

const databases = async () => (await provider.cluster.list('ManagedDatabase', { namespace })).items
const tasks = async () => (await provider.cluster.list('Task', { namespace })).items.map(task => task.metadata.name)
/** Whether the operator of the older version may have a Deployment for each service. */
async function runsServices(): Promise<boolean> {
  const may = ['auth', 'can-i', 'create', 'deployments.apps', '--namespace', namespace]
  const operator = '--as=system:serviceaccount:espalier-system:espalier-operator'
  return (await provider.kubectl([...may, operator]).catch(() => 'no')).trim() === 'yes'
}
/** The image of each service's workloads. */
async function serviceImages(): Promise<string[]> {
  const { items } = await provider.cluster.list('Deployment', { namespace })
  return items.map(({ spec }) => spec?.template.spec?.containers[0]?.image ?? '')
}
/** Every Postgres pod, with the starts of its containers. */
const runs = async () => {
  const { items } = await provider.cluster.list('Pod', { namespace, labels: { [labels.database]: true } })
  return items
    .filter(({ metadata }) => metadata.labels?.[labels.service] === undefined)
    .flatMap(pod =>
      (pod.status?.containerStatuses ?? []).map(({ containerID }) => `${pod.metadata.uid} ${containerID}`),
    )
    .toSorted()
}
const owned = async (): Promise<string[]> => {
  const kinds = 'persistentvolumeclaims,secrets,statefulsets,services,configmaps,networkpolicies'
  const path = '{range .items[*]}{.kind}/{.metadata.name} {.metadata.ownerReferences[*].kind}{"\\n"}{end}'
  const text = await provider.kubectl(['get', kinds, '-n', namespace, '-l', labels.database, '-o', `jsonpath=${path}`])
  return text.split('\n').filter(line => line.includes('ManagedDatabase'))
}

/** Watches the databases as a client would. */
function followPhases(): { seen: Set<string>; stop(): void } {
  const seen = new Set<string>()
  const stopping = new AbortController()
  const note = ({ metadata, status }: ManagedDatabase) => seen.add(`${metadata.name} ${status?.phase}`)
  /** Runs one watch until it ends. The API server closes all watches of a kind whose definition changes. */
  const watchOnce = async () => {
    const { items, resourceVersion } = await provider.cluster.list('ManagedDatabase', { namespace })
    items.forEach(note)
    const options = { namespace, resourceVersion, signal: stopping.signal }
    for await (const event of provider.cluster.watch('ManagedDatabase', options))
      if (event.type !== 'BOOKMARK') note(event.object)
  }
  const follow = async () => {
    while (!stopping.signal.aborted) {
      await watchOnce().catch(() => {})
      await sleep(100)
    }
  }
  void follow()
  return { seen, stop: () => stopping.abort() }
}

/** Runs the working tree's installer over the existing installation. */
async function upgrade(): Promise<void> {
  const script = join(root, 'e2e/kind/deploy.ts')
  await promisify(execFile)(process.execPath, [script], { maxBuffer: 64 << 20 })
}

test('ten databases continue to serve through an upgrade', async () => {
  const [runsBefore, tasksBefore] = [await runs(), await tasks()]
  const operatorsBefore = await operatorPods()
  const sessions: SessionMonitor = await monitorSessions(connections)
  const phases = followPhases()
  // An older mcp kept its sessions in the pods that are replaced.
  const loads = served === undefined ? [] : loadAll(served.clients, { mayEnd: true })
  const imagesBefore = await serviceImages()

  await upgrade()
  // The new operator has reconciled every database once it has removed the owner references.
  await eventually('the new operator has reconciled all databases', async () => (await owned()).length === 0, 180_000)
  expect((await operatorPods()).filter(name => operatorsBefore.includes(name))).toEqual([])
  await eventually('every database is available', async () =>
    (await databases()).every(({ status }) => status?.phase === 'available'),
  )

  if (served !== undefined) {
    await eventually(
      'every service has a new image',
      async () => {
        const images = await serviceImages()
        return images.length === imagesBefore.length && !images.some(image => imagesBefore.includes(image))
      },
      300_000,
    )
    await untilRunning(api, served.database.id)
    await sleep(15_000)
  }
  phases.stop()
  await sessions.stop()
  console.log(`requests to services meanwhile: ${loads.map(({ count }) => count()).join(', ')}`)
  expect((await stopAll(loads)).slice(0, 20)).toEqual([])
  for (const { accepted } of loads) expect(accepted()).toBeLessThanOrEqual(1)
  console.log(`new connections meanwhile: ${sessions.admitted} admitted, ${sessions.refused.length} refused`)
  for (const line of sessions.refused.slice(0, 5)) console.log(line)
  expect(Object.fromEntries(sessions.disconnected)).toEqual({})
  const all = served === undefined ? names : [...names, 'served']
  expect([...phases.seen].toSorted()).toEqual(all.map(name => `${name} available`).toSorted())
  expect(await tasks()).toEqual(tasksBefore)
  expect(await runs()).toEqual(runsBefore)
  for (const [name, connection] of connections) expect(await query(connection, 'TABLE kept')).toEqual([{ name }])
})

async function operatorPods(): Promise<string[]> {
  const { items } = await provider.cluster.list('Pod', {
    namespace: 'espalier-system',
    labels: { 'app.kubernetes.io/component': 'operator' },
  })
  return items.filter(pod => pod.metadata.deletionTimestamp === undefined).map(pod => pod.metadata.name)
}

test('existing objects can be changed, resized and deleted as before', async () => {
  const [first] = names
  const id = ids.get(first ?? '') ?? ''
  const changed = await api.change(id, { display_name: 'after', ip_allowlist: openTo(provider.clientAddress) })
  expect(changed).toMatchObject({ status: 200, body: { status: 'available', display_name: 'after' } })
  expect((await api.remove(id)).status).toBe(204)
  ids.delete(first ?? '')
  expect((await api.read(id)).status).toBe(404)
})
