/** Imports as users see them: progress, further attempts, faults, and remaining objects. The pods are fakes. */
import { describe, expect, test } from 'vitest'
import {
  childNames,
  importSourceComponent,
  importSourceField,
  importSourceName,
  labels,
  managedByEspalier,
  systemNamespace,
} from '../../../crds/index.ts'
import { type ImportConfiguration, importFile, progressName } from '../../../instance/import/contract.ts'
import { sealingKeySecret } from '../../../sealing/credentials.ts'
import { sealedData } from '../../../sealing/service-keys.ts'
import { systemPods } from '../../endpoint/network-policy.ts'
import { condition, hasCondition, isPhase, useInstallation } from '../../testing/fixture.ts'
import { databaseDraft, eventually, testNamespace } from '../../testing/installation.ts'

const it = useInstallation()
const importer = () => {
  const { importer: found } = it.installation()
  if (found === undefined) throw new Error('there is no fake importer')
  return found
}
const password = 'a-secret-of-the-source'
const rules = { rules: [{ cidr: '203.0.113.7/32' }] }

let ids = 0
/** Creates a database whose source the API has sealed; resolves before the import has ended. */
async function begin(name: string, uri = `postgresql://u:${password}@198.51.100.9:5433/shop?sslmode=verify-full`) {
  const id = `019c1f2a-5b3c-7d${String(++ids).padStart(2, '0')}-8f60-718293a4b5c6`
  const secretName = importSourceName(id)
  const key = await it.cluster().get('Secret', { namespace: systemNamespace, name: sealingKeySecret })
  await it.cluster().create('Secret', {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'Opaque',
    immutable: true,
    metadata: {
      name: secretName,
      namespace: testNamespace,
      labels: {
        [labels.database]: id,
        [labels.component]: importSourceComponent,
        [labels.managedBy]: managedByEspalier,
      },
    },
    data: sealedData(
      Buffer.from(key?.data?.key ?? '', 'base64'),
      { namespace: testNamespace, name: secretName },
      { [importSourceField]: uri },
    ),
  })
  await it.cluster().create('ManagedDatabase', databaseDraft(name, { ipAllowlist: rules, import: { secretName } }, id))
  return { id, secretName, key: { namespace: testNamespace, name: childNames.import(id) } }
}

async function expectNothingRemaining({ secretName, key }: Awaited<ReturnType<typeof begin>>) {
  const remaining = () =>
    Promise.all([
      ...(['Pod', 'NetworkPolicy', 'Secret'] as const).map(kind => it.cluster().get(kind, key)),
      it.cluster().get('Secret', { namespace: testNamespace, name: secretName }),
    ])
  await eventually(remaining, found => found.every(object => object === undefined))
}

describe('an import', () => {
  test('fills the database before it is available, with an isolated pod that alone has the source', async () => {
    importer().endings.push('runs')
    const made = await begin('imported')
    await it.when('imported', found => found.status?.import?.phase === 'running')
    const { id, key } = made
    const [pod, policy, secret] = await Promise.all([
      it.cluster().get('Pod', key),
      it.cluster().get('NetworkPolicy', key),
      it.cluster().get('Secret', key),
    ])
    const text = Buffer.from(secret?.data?.[importFile] ?? '', 'base64').toString('utf8')
    const configuration = JSON.parse(text) as ImportConfiguration
    expect(configuration).toMatchObject({
      source: { host: '198.51.100.9', address: '198.51.100.9', port: 5433, password, sslmode: 'verify-full' },
      target: { database: 'app', user: 'app', sslmode: 'verify-full' },
      capacityBytes: 2 ** 30,
    })
    expect(JSON.stringify(pod)).not.toContain(password)
    expect(policy?.spec).toMatchObject({ policyTypes: ['Ingress', 'Egress'] })
    expect(policy?.spec?.egress?.[1]).toEqual({
      to: [{ ipBlock: { cidr: '198.51.100.9/32' } }, systemPods('gateway')],
      ports: [{ protocol: 'TCP', port: 5433 }],
    })
    expect(await it.routesOf(id)).toMatchObject([{ rules: [] }])

    for (const data of it.workload().postgres.data.values())
      data.importing = progressName({
        step: 'data',
        tables: { done: 2, total: 9 },
        bytes: { done: 5_000, total: 90_000 },
        beat: 7,
      })
    const later = await it.when('imported', found => found.status?.import?.tablesDone === 2)
    expect(later.status?.phase).toBe('creating')
    await eventually(
      () => it.tasksOf('imported'),
      ([task]) => JSON.stringify(task?.status).includes('2 of 9 tables'),
    )
    if (pod === undefined) throw new Error('there is no pod')
    await importer().end(pod, { result: { sourceVersion: '16.4', tables: 9, rows: 70, bytes: 91_000, leftOut: [] } })
    const done = await it.when(
      'imported',
      found => isPhase('available')(found) && found.status?.operation === undefined,
    )
    expect(done.status?.import).toMatchObject({
      phase: 'completed',
      attempt: 1,
      tables: 9,
      rows: 70,
      sourceVersion: '16.4',
    })
    expect(JSON.stringify(done)).not.toContain(password)
    expect(await it.routesOf(id)).toMatchObject([{ rules: ['203.0.113.7/32'] }])
    await expectNothingRemaining(made)
    expect((await it.tasksOf('imported'))[0]?.status?.phase).toBe('succeeded')
  })

  test('starts again if its pod is deleted, or the source is unreachable', async () => {
    importer().endings.push('runs')
    const { key } = await begin('retried')
    await it.when('retried', found => found.status?.import?.phase === 'running')
    await it.cluster().delete('Pod', key)
    const waiting = await it.when('retried', found => found.status?.import?.phase === 'waiting')
    expect(waiting.status).toMatchObject({
      phase: 'creating',
      import: { reason: 'Interrupted', message: 'the import pod was deleted' },
    })
    const done = await it.when('retried', isPhase('available'))
    expect(done.status?.import).toMatchObject({ phase: 'completed', attempt: 2 })
  })

  test.each<[string, string, RegExp]>([
    ['refused', 'postgresql://u:p@10.0.0.1/shop', /an address of the source is not public/],
    ['misspelt', 'postgresql://u@db.example.com/shop', /source\.uri: must have a password/],
  ])('from a source that is %s fails the database, and leaves no objects', async (name, uri, message) => {
    const made = await begin(name, uri)
    const failed = await it.when(name, found => isPhase('failed')(found) && found.status?.operation === undefined)
    expect(failed.status?.import).toMatchObject({ phase: 'failed', reason: 'SourceRefused' })
    expect(condition(failed, 'Ready')).toMatchObject({
      status: 'False',
      reason: 'ImportFailed',
      message: expect.stringMatching(message),
    })
    expect((await it.tasksOf(name))[0]?.status).toMatchObject({
      phase: 'failed',
      error: expect.stringMatching(message),
    })
    expect(await it.routesOf(made.id)).toMatchObject([{ rules: [] }])
    await expectNothingRemaining(made)
  })

  test('that another attempt cannot fix fails the database', async () => {
    const message = 'the source has the extension "postgis"'
    importer().endings.push({ fault: 'ExtensionMissing', message })
    const made = await begin('lacking')
    const failed = await it.when('lacking', isPhase('failed'))
    expect(failed.status?.import).toMatchObject({ phase: 'failed', reason: 'ExtensionMissing', message, attempt: 1 })
    await expectNothingRemaining(made)
  })

  test('is not repeated over the data of a database that is recreated without its status', async () => {
    const secretName = 'kept'
    const data = { [importSourceField]: Buffer.from('postgresql://u:p@198.51.100.9/shop').toString('base64') }
    const metadata = { namespace: testNamespace, name: secretName }
    await it.cluster().create('Secret', { apiVersion: 'v1', kind: 'Secret', metadata, data })
    const made = await it.create('returned', { import: { secretName } })
    const runs = importer().seen.length
    const { annotations: objectAnnotations = {}, labels: known = {} } = made.metadata
    await it.stopOperator()
    const before = await it.when('returned', () => true)
    await it.cluster().replace('ManagedDatabase', { ...before, metadata: { ...before.metadata, finalizers: [] } })
    await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'returned' })
    const draft = databaseDraft('returned', { import: { secretName } }, known[labels.id])
    await it
      .cluster()
      .create('ManagedDatabase', { ...draft, metadata: { ...draft.metadata, annotations: objectAnnotations } })
    await it.startOperator()
    const failed = await it.when('returned', isPhase('failed'))
    expect(failed.status?.import).toMatchObject({ phase: 'failed', reason: 'ImportUnknown' })
    expect(importer().seen.length).toBe(runs)
  })

  test('waits for a missing Secret, and ends with its database', async () => {
    importer().endings.push('runs')
    await it.cluster().create('ManagedDatabase', databaseDraft('deleted', { import: { secretName: 'mine' } }))
    await it.when('deleted', hasCondition('Progressing', 'ImportSourceMissing'))
    const own = { namespace: testNamespace, name: 'mine' }
    const data = { [importSourceField]: Buffer.from('postgresql://u:p@198.51.100.9/shop\n').toString('base64') }
    await it.cluster().create('Secret', { apiVersion: 'v1', kind: 'Secret', metadata: own, data })
    await it.when('deleted', found => found.status?.import?.phase === 'running')
    const key = { namespace: testNamespace, name: childNames.import(await it.idOf('deleted')) }
    await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'deleted' })
    await it.untilDeleted('deleted')
    expect(await it.cluster().get('Pod', key)).toBeUndefined()
    expect(await it.cluster().get('Secret', key)).toBeUndefined()
    // Only the user deletes the user's own Secret.
    expect(await it.cluster().get('Secret', own)).toBeDefined()
  })
})
