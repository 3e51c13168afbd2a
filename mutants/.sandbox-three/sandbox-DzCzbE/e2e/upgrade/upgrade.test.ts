/**
 * An upgrade of an installation with ten databases that serve: none is restarted, none is `modifying`, no Task is made,
 * no session is cut. Afterwards nothing that holds data belongs to the garbage collector.
 */
// @ts-nocheck

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { labels, type ManagedDatabase } from '../../crds/index.ts'
import { type ApiClient, type Connection, eventually, openTo, query } from '../client.ts'
import { root } from '../kind/settings.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'
import { type Witness, witness } from './witness.ts'

const names = Array.from({ length: 10 }, (_, index) => `serving${index}`)
let provider: KindProvider
let api: ApiClient
let namespace: string
const connections = new Map<string, Connection>()
const ids = new Map<string, string>()

beforeAll(async () => {
  provider = await startKind()
  api = await provider.client('upgrade')
  namespace = provider.namespace('upgrade')
  const ip_allowlist = openTo(provider.clientAddress)
  for (const name of names) {
    const { body } = await api.create({ name, pg_version: '17', ip_allowlist })
    ids.set(name, body.id)
    await eventually('available', async () => (await api.read(body.id)).body.status === 'available', 180_000)
    const connection = await api.connection(body.id)
    await query(connection, `CREATE TABLE kept AS SELECT '${name}' AS name`)
    connections.set(name, connection)
  }
})
afterAll(async () => {
  for (const id of ids.values()) await api.remove(id)
  await provider?.stop()
})

const databases = async () => (await provider.cluster.list('ManagedDatabase', { namespace })).items
const tasks = async () => (await provider.cluster.list('Task', { namespace })).items.map(task => task.metadata.name)
/** Every pod of a database and every run of its containers. */
const runs = async () => {
  const { items } = await provider.cluster.list('Pod', { namespace, labels: { [labels.database]: true } })
  return items
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

/** Follows the databases as a client does that watches them. */
function followPhases(): { seen: Set<string>; stop(): void } {
  const seen = new Set<string>()
  const stopping = new AbortController()
  const note = ({ metadata, status }: ManagedDatabase) => seen.add(`${metadata.name} ${status?.phase}`)
  /** One watch, from the state of now until it ends: the API server closes all of a kind whose definition changes. */
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

/** Runs the working tree's own installer over what is there. */
async function upgrade(): Promise<void> {
  const script = join(root, 'e2e/kind/deploy.ts')
  await promisify(execFile)(process.execPath, [script], { maxBuffer: 64 << 20 })
}

test('ten databases serve on through an upgrade', async () => {
  const [runsBefore, tasksBefore] = [await runs(), await tasks()]
  const operatorsBefore = await operatorPods()
  const sessions: Witness = await witness(connections)
  const phases = followPhases()

  await upgrade()
  // The new operator has passed over every one once it has taken the owner references off.
  await eventually('the new operator has looked at all', async () => (await owned()).length === 0, 180_000)
  expect((await operatorPods()).filter(name => operatorsBefore.includes(name))).toEqual([])
  await eventually('all at rest', async () => (await databases()).every(({ status }) => status?.phase === 'available'))

  phases.stop()
  await sessions.stop()
  console.log(`new connections meanwhile: ${sessions.admitted} admitted, ${sessions.refused.length} refused`)
  for (const line of sessions.refused.slice(0, 5)) console.log(line)
  expect(Object.fromEntries(sessions.cut)).toEqual({})
  expect([...phases.seen].toSorted()).toEqual(names.map(name => `${name} available`).toSorted())
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

test('what was made before is changed, resized and deleted as ever', async () => {
  const [first] = names
  const id = ids.get(first ?? '') ?? ''
  const changed = await api.change(id, { display_name: 'after', ip_allowlist: openTo(provider.clientAddress) })
  expect(changed).toMatchObject({ status: 200, body: { status: 'available', display_name: 'after' } })
  expect((await api.remove(id)).status).toBe(204)
  ids.delete(first ?? '')
  expect((await api.read(id)).status).toBe(404)
})
