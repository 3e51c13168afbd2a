/**
 * The Secrets for clients inside the cluster, with the fakes: when they are written, and which objects they never
 * change.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createInformer } from '../../cluster/informer/index.ts'
import { childNames, type ManagedDatabase, rotationAnnotations, visiblePhase } from '../../crds/index.ts'
import { PostgresError } from '../postgres/administrator.ts'
import { condition, isPhase, useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually, silent, testConfiguration, testNamespace } from '../testing/installation.ts'

const it = useInstallation()

const requested = { credentials: { secrets: true } }
const at = (name: string) => ({ namespace: testNamespace, name })
const secret = (name: string) => it.cluster().get('Secret', at(name))
const valuesOf = async (name: string) =>
  Object.fromEntries(
    Object.entries((await secret(name))?.data ?? {}).map(([key, value]) => [
      key,
      Buffer.from(value, 'base64').toString(),
    ]),
  )
const reason = (database: ManagedDatabase) => condition(database, 'SecretsReady')?.reason
const written = (name: string) => it.when(name, found => reason(found) === 'Written')
const untilDeleted = (name: string) =>
  eventually(
    () => secret(name),
    found => found === undefined,
  )
const dataOf = async (name: string) => {
  const data = it.workload().postgres.data.get((await it.database(name))?.status?.volume?.uid ?? '')
  if (data === undefined) throw new Error('the Secret has no data')
  return data
}
const isReconciled = (found: ManagedDatabase) =>
  found.status?.operation === undefined && visiblePhase(found) === 'available' && isPhase('available')(found)

describe('Secrets for clients', () => {
  test('contain what a client needs to connect as each role, and are restored if other clients change them', async () => {
    await it.create('shown', requested)
    const database = await written('shown')
    const { host, port } = database.status?.endpoint ?? {}
    const { roles } = await dataOf('shown')
    for (const [name, role] of [
      ['shown-app', 'app'],
      ['shown-admin', 'admin'],
      ['shown-app-read-only', 'app_read_only'],
    ] as const) {
      const { password } = roles[role] ?? { password: '' }
      expect(await secret(name)).toMatchObject({ type: 'kubernetes.io/basic-auth' })
      expect((await secret(name))?.metadata.ownerReferences).toBeUndefined()
      expect(await valuesOf(name)).toEqual({
        username: role,
        user: role,
        password,
        host,
        port: String(port),
        dbname: 'app',
        uri: `postgresql://${role}:${password}@${host}:${port}/app?sslmode=require`,
        'jdbc-uri': `jdbc:postgresql://${host}:${port}/app?user=${role}&password=${password}&sslmode=require`,
        pgpass: `${host}:${port}:app:${role}:${password}\n`,
        sslrootcert: expect.stringMatching(/^-----BEGIN CERTIFICATE-----/),
      })
    }
    const before = await secret('shown-app')
    if (before === undefined) throw new Error('the object is missing')
    await it.cluster().replace('Secret', {
      ...before,
      metadata: { ...before.metadata, annotations: { ...before.metadata.annotations, theirs: 'stays' } },
      data: { ...before.data, password: 'bm90aGluZw==' },
    })
    await eventually(
      () => secret('shown-app'),
      found => found?.data?.password === before.data?.password && found?.metadata.annotations?.theirs === 'stays',
    )
    await it.cluster().delete('Secret', at('shown-admin'))
    await eventually(
      () => secret('shown-admin'),
      found => found !== undefined,
    )
    const reported = JSON.stringify([await it.database('shown'), await it.tasksOf('shown')])
    for (const { password } of Object.values(roles)) expect(reported).not.toContain(password)
  })

  test('are created and deleted on request without an operation, and are deleted with the database', async () => {
    await it.create('switched')
    const before = await it.when('switched', isReconciled)
    expect(await secret('switched-app')).toBeUndefined()
    await editSpec(it.cluster(), 'switched', spec => ({ ...spec, ...requested }))
    const on = await written('switched')
    expect([on.status?.appliedHash, visiblePhase(on)]).toEqual([before.status?.appliedHash, 'available'])
    await editSpec(it.cluster(), 'switched', ({ credentials: _, ...spec }) => spec)
    for (const role of ['app', 'admin', 'app-read-only']) await untilDeleted(`switched-${role}`)
    await it.when('switched', found => condition(found, 'SecretsReady') === undefined)
    expect(await it.tasksOf('switched')).toHaveLength(1)
    await editSpec(it.cluster(), 'switched', spec => ({ ...spec, ...requested }))
    await written('switched')
    await it.cluster().delete('ManagedDatabase', at('switched'))
    await it.untilDeleted('switched')
    for (const role of ['app', 'admin', 'app-read-only']) expect(await secret(`switched-${role}`)).toBeUndefined()
  })

  test('never overwrite a foreign Secret, which a condition names', async () => {
    const foreign = { apiVersion: 'v1', kind: 'Secret', type: 'Opaque', metadata: at('taken-app') } as const
    const made = await it.cluster().create('Secret', { ...foreign, data: { password: 'dGhlaXJz' } })
    await it.create('taken', requested)
    const found = await it.when('taken', database => reason(database) === 'NameTaken')
    expect(condition(found, 'SecretsReady')).toMatchObject({
      status: 'False',
      message: expect.stringMatching(/^taken-app: a Secret of that name exists and does not belong to this database/),
    })
    expect(found.status?.phase).toBe('available')
    await eventually(
      () => secret('taken-admin'),
      admin => admin !== undefined,
    )
    expect(await secret('taken-app')).toEqual(made)
    await it.cluster().delete('ManagedDatabase', at('taken'))
    await it.untilDeleted('taken')
    expect(await secret('taken-app')).toEqual(made)
  })

  test('get a new password only after Postgres has it', async () => {
    await it.create('turned', requested)
    await written('turned')
    /** Each password that the Secret had, with whether Postgres accepted it at that moment. */
    const seen: boolean[] = []
    const { roles } = await dataOf('turned')
    const secrets = createInformer(it.cluster(), 'Secret', { namespace: testNamespace, logger: silent })
    secrets.onChange(({ object }) => {
      if (object.metadata.name !== 'turned-app') return
      seen.push(roles.app?.password === Buffer.from(object.data?.password ?? '', 'base64').toString())
    })
    await secrets.start()
    const before = await valuesOf('turned-app')
    await editSpec(it.cluster(), 'turned', spec => spec, { [rotationAnnotations.app]: 'please' })
    await eventually(
      () => valuesOf('turned-app'),
      values => values.password !== before.password,
    )
    await secrets.stop()
    expect(seen.length).toBeGreaterThanOrEqual(2)
    expect(seen).not.toContain(false)
    expect((await valuesOf('turned-app')).password).toBe((await dataOf('turned')).roles.app?.password)
  })

  test('keep the valid password if a rotation fails', async () => {
    await it.create('kept', requested)
    await written('kept')
    const before = await valuesOf('kept-app')
    const { access } = it.workload().postgres
    const refusing = async () => {
      await sleep(30)
      throw new PostgresError('statement', 'cannot execute ALTER ROLE in a read-only transaction', '25006')
    }
    await it.stopOperator()
    await it.startOperator({
      configuration: { deadlines: { ...testConfiguration.deadlines, modifyingMs: 1500 } },
      administrator: { ...access, ensureRoles: refusing },
    })
    await editSpec(it.cluster(), 'kept', spec => spec, { [rotationAnnotations.app]: 'please' })
    const replaced = async () => it.cluster().get('Secret', at(childNames.credentials(await it.idOf('kept'))))
    await eventually(replaced, found => found?.data?.['app.previous'] !== undefined)
    expect(await valuesOf('kept-app')).toEqual(before)
    await eventually(replaced, found => found?.data?.['app.previous'] === undefined)
    await it.when('kept', found => found.status?.operation === undefined)
    expect(await valuesOf('kept-app')).toEqual(before)
    await it.stopOperator()
    await it.startOperator()
  })
})
