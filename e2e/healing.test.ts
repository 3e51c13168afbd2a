/** Deleted resources of a database are created again, and its data survive even the loss of its claim. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ManagedDatabase } from '../crds/index.ts'
import { annotations, childNames, labels, rotationAnnotations, systemNamespace } from '../crds/index.ts'
import { type ApiClient, type Database, eventually, openTo, query } from './client.ts'
import { startProvider } from './provider.ts'
import type { Provider } from './providers/provider.ts'

let provider: Provider
let namespace: string
let api: ApiClient
let database: Database

beforeAll(async () => {
  provider = await startProvider()
  namespace = provider.namespace()
  api = await provider.client()
})
afterAll(() => provider?.stop())
beforeEach(async () => {
  const created = await api.create({ name: 'healing', ip_allowlist: openTo(provider.clientAddress) })
  // The body is checked first, because it contains the reason of a refusal.
  expect(created.body).toMatchObject({ status: 'available' })
  expect(created.status).toBe(200)
  database = created.body
  await query(await api.connection(database.id), 'CREATE TABLE kept AS SELECT 42 AS n')
})
afterEach(async () => {
  const { status, body } = await api.remove(database.id)
  expect({ status, body }).toEqual({ status: 204, body: {} })
})

const resource = async (): Promise<ManagedDatabase | undefined> =>
  provider.cluster.get('ManagedDatabase', { namespace, name: 'healing' })

const condition = async (type: string) => (await resource())?.status?.conditions?.find(each => each.type === type)

/** Reads the data through the gateway, with the password that the API returns now. */
const answers = () =>
  eventually('the data is served again', async () => {
    const rows = await query(await api.connection(database.id), 'SELECT n FROM kept')
    return rows[0]?.n === 42 && (await api.read(database.id)).body.status === 'available'
  })

const postmaster = () => provider.postmaster(namespace, database.id)

describe('self-healing', () => {
  test('Postgres is killed', async () => {
    const killed = await postmaster()
    await killed.kill()
    await eventually('a new postmaster runs', async () => (await postmaster()).id !== killed.id)
    await answers()
  })

  test('the StatefulSet, the Service, the configuration and the route are deleted', async () => {
    const routes = await provider.cluster.list('ConfigMap', {
      namespace: systemNamespace,
      labels: { [labels.database]: database.id },
    })
    expect(routes.items).toHaveLength(1)
    const taken = [
      ['StatefulSet', { namespace, name: childNames.statefulSet(database.id, 1) }],
      ['Service', { namespace, name: childNames.service(database.id) }],
      ['ConfigMap', { namespace, name: childNames.configuration(database.id, 1) }],
      ['ConfigMap', { namespace: systemNamespace, name: routes.items[0]?.metadata.name ?? '' }],
    ] as const
    for (const [kind, key] of taken) {
      const before = await provider.cluster.get(kind, key)
      await provider.cluster.delete(kind, key)
      await eventually(`the operator creates the ${kind} again`, async () => {
        const after = await provider.cluster.get(kind, key)
        return after !== undefined && after.metadata.uid !== before?.metadata.uid
      })
      await answers()
    }
  })

  test('the credentials are deleted by force: clients are served, and new passwords are created only on request', async () => {
    const old = await api.connection(database.id)
    const key = { namespace, name: childNames.credentials(database.id) }
    await expect(provider.cluster.delete('Secret', key)).rejects.toThrow(/force=true/)
    const secret = await provider.cluster.get('Secret', key)
    if (secret === undefined) throw new Error('the database has no credentials')
    const forced = { ...secret.metadata.annotations, [annotations.force]: 'true' }
    await provider.cluster.replace('Secret', { ...secret, metadata: { ...secret.metadata, annotations: forced } })
    await provider.cluster.delete('Secret', key)
    await eventually(
      'the database reports the reason CredentialsLost',
      async () => (await condition('CredentialsReady'))?.reason === 'CredentialsLost',
    )
    expect(await query(old, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
    const found = await provider.cluster.get('ManagedDatabase', { namespace, name: database.name })
    if (found === undefined) throw new Error('there is no database')
    const rotating = { ...found.metadata.annotations, [rotationAnnotations.app]: 'new' }
    await provider.cluster.replace('ManagedDatabase', {
      ...found,
      metadata: { ...found.metadata, annotations: rotating },
    })
    await eventually(
      'the API returns a new password',
      async () => (await api.connection(database.id)).password !== old.password,
    )
    await answers()
  })

  test('the certificate is deleted', async () => {
    await provider.cluster.delete('Secret', { namespace, name: childNames.tls(database.id) })
    await eventually('the operator creates the certificate again', () =>
      provider.cluster.get('Secret', { namespace, name: childNames.tls(database.id) }),
    )
    await answers()
  })

  test('the pod is deleted', async () => {
    const key = { namespace, name: childNames.pod(database.id, 1) }
    const before = await provider.cluster.get('Pod', key)
    await provider.cluster.delete('Pod', key)
    await eventually('the pod is created again', async () => {
      const after = await provider.cluster.get('Pod', key)
      return after !== undefined && after.metadata.uid !== before?.metadata.uid
    })
    await answers()
  })

  test('a password changed by its user is reported, not overwritten', async () => {
    const admin = await api.connection(database.id, 'admin')
    const app = await api.connection(database.id)
    await query(app, "ALTER ROLE app PASSWORD 'my own'")
    // A change inside Postgres is detected within six minutes. A restarted Postgres is checked at once.
    await (await postmaster()).kill()
    await eventually(
      'the database reports the reason PasswordChangedByUser',
      async () => (await condition('CredentialsReady'))?.reason === 'PasswordChangedByUser',
    )
    // A check just before the kill can set the condition while Postgres still starts.
    const own = await eventually('Postgres accepts the password of the user', () =>
      query({ ...app, password: 'my own' }, 'SELECT 1 AS one'),
    )
    expect(own).toEqual([{ one: 1 }])
    expect(admin.username).toBe('admin')
  })

  test('the claim is deleted: at the next stop its volume is bound to a new claim, and no data are lost', {
    timeout: 240_000,
  }, async () => {
    const key = { namespace, name: childNames.claim(database.id, 1) }
    const before = await provider.cluster.get('PersistentVolumeClaim', key)
    if (before === undefined) throw new Error('the database has no claim')
    // If a policy protects claims from deletion, this annotation forces it.
    const forced = { ...before.metadata.annotations, [annotations.force]: 'true' }
    await provider.cluster.replace('PersistentVolumeClaim', {
      ...before,
      metadata: { ...before.metadata, annotations: forced },
    })
    await provider.cluster.delete('PersistentVolumeClaim', key)
    const secured = async () => (await condition('VolumeReady'))?.message?.includes('no data are lost') === true
    await eventually('the database reports that no data are lost', secured)
    await provider.cluster.delete('Pod', { namespace, name: childNames.pod(database.id, 1) })
    await eventually(
      'a new claim is bound',
      async () => {
        const after = await provider.cluster.get('PersistentVolumeClaim', key)
        return after?.metadata.uid !== before.metadata.uid && after?.status?.phase === 'Bound'
      },
      120_000,
    )
    await answers()
  })
})
