/** Password rotation with the fakes: what is requested, what is valid in the meantime, and what is not done in time. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createInformer } from '../../cluster/informer/index.ts'
import {
  type ManagedDatabase,
  type Rotations,
  rotationAnnotations,
  systemNamespace,
  visiblePhase,
} from '../../crds/index.ts'
import { type DatabaseRole, sealingKeySecret } from '../../sealing/credentials.ts'
import { openCredentials } from '../endpoint/credentials.ts'
import { PostgresError } from '../postgres/administrator.ts'
import { condition, isPhase, useInstallation } from '../testing/fixture.ts'
import {
  editSpec,
  eventually,
  silent,
  startTestOperator,
  testConfiguration,
  testNamespace,
} from '../testing/installation.ts'

const it = useInstallation()

const isAtRest = (database: ManagedDatabase): boolean => database.status?.operation === undefined
const requestRotations = (name: string, rotations: Rotations, more: Record<string, string> = {}) =>
  editSpec(it.cluster(), name, spec => spec, {
    ...more,
    ...Object.fromEntries(
      Object.entries(rotations).map(([role, value]) => [rotationAnnotations[role as DatabaseRole], value]),
    ),
  })
const untilReconciledAfter = (name: string, requested: ManagedDatabase, phase = 'available') =>
  it.when(
    name,
    found =>
      isPhase(phase)(found) &&
      isAtRest(found) &&
      visiblePhase(found) === phase &&
      (found.metadata.generation ?? 0) >= (requested.metadata.generation ?? 0) &&
      found.status?.appliedHash !== requested.status?.appliedHash,
  )

async function shown(name: string) {
  const [secret, sealing] = await Promise.all([
    it.child('Secret', name, 'credentials'),
    it.cluster().get('Secret', { namespace: systemNamespace, name: sealingKeySecret }),
  ])
  if (secret === undefined) throw new Error('there are no credentials')
  return { secret, ...openCredentials(secret, Buffer.from(sealing?.data?.key ?? '', 'base64')) }
}
const dataOf = async (name: string) => {
  const data = it.workload().postgres.data.get((await it.database(name))?.status?.volume?.uid ?? '')
  if (data === undefined) throw new Error('the Secret has no data')
  return data
}
const valid = async (name: string) => {
  const { roles } = await dataOf(name)
  return { admin: roles.admin?.password, app: roles.app?.password, app_read_only: roles.app_read_only?.password }
}
const passwordsOf = ({ admin, app, app_read_only }: Awaited<ReturnType<typeof shown>>) => ({
  admin,
  app,
  app_read_only,
})
const made = async (name: string) => {
  await it.create(name)
  return it.when(name, isAtRest)
}

describe('a rotation', () => {
  test('requested with kubectl changes the password of its role alone, with a Task', async () => {
    await made('asked')
    const before = await shown('asked')
    // The password of another role that a user set is kept.
    const { uid = '' } = (await it.child('PersistentVolumeClaim', 'asked', 'claim'))?.metadata ?? {}
    it.workload().postgres.changePassword(uid, 'admin', 'of my own')
    const ready = new Set<string | undefined>()
    const databases = createInformer(it.cluster(), 'ManagedDatabase', { namespace: testNamespace, logger: silent })
    databases.onChange(({ object }) => {
      if (object.metadata.name === 'asked') ready.add(condition(object, 'Ready')?.status)
    })
    await databases.start()
    const requested = await requestRotations('asked', { app: 'please' })
    expect(visiblePhase(requested)).toBe('modifying')
    const done = await untilReconciledAfter('asked', requested)
    await databases.stop()
    const after = await shown('asked')
    expect(after.app).not.toBe(before.app)
    expect([after.admin, after.app_read_only]).toEqual([before.admin, before.app_read_only])
    expect(await valid('asked')).toEqual({ ...passwordsOf(after), admin: 'of my own' })
    expect(Object.keys(after.secret.data ?? {})).not.toContain('app.previous')
    expect(condition(done, 'CredentialsReady')?.status).toBe('True')
    expect([...ready]).toEqual(['True'])
    const tasks = await it.tasksOf('asked')
    expect(tasks.map(({ spec, status }) => [spec.name, status?.phase]).sort()).toEqual([
      ['create-managed', 'succeeded'],
      ['rotate-password-managed', 'succeeded'],
    ])
    expect(JSON.stringify(tasks) + JSON.stringify(done)).not.toContain(after.app)
  })

  test('of several roles at once is one operation', async () => {
    await made('several')
    const before = await shown('several')
    await untilReconciledAfter('several', await requestRotations('several', { admin: 'a', app_read_only: 'b' }))
    const after = await shown('several')
    expect(after.admin).not.toBe(before.admin)
    expect(after.app_read_only).not.toBe(before.app_read_only)
    expect(await valid('several')).toEqual({ ...passwordsOf(after), app: before.app })
    expect((await it.tasksOf('several')).map(({ spec }) => spec.name)).toContain('rotate-password-managed')
  })

  test('replaces a password that a user changed, and each rotation creates a new one', async () => {
    await made('mended')
    const { uid = '' } = (await it.child('PersistentVolumeClaim', 'mended', 'claim'))?.metadata ?? {}
    it.workload().postgres.changePassword(uid, 'app', 'of my own')
    const first = await untilReconciledAfter('mended', await requestRotations('mended', { app: '1' })).then(() =>
      shown('mended'),
    )
    expect((await valid('mended')).app).toBe(first.app)
    await untilReconciledAfter('mended', await requestRotations('mended', { app: '2' }))
    const second = await shown('mended')
    expect(second.app).not.toBe(first.app)
    expect(await valid('mended')).toEqual(passwordsOf(second))
  })

  test('whose request is removed after it was done changes nothing', async () => {
    await made('withdrawn')
    const done = await untilReconciledAfter('withdrawn', await requestRotations('withdrawn', { app: 'please' }))
    const before = await shown('withdrawn')
    const { [rotationAnnotations.app]: _, ...rest } = done.metadata.annotations ?? {}
    await it.cluster().replace('ManagedDatabase', { ...done, metadata: { ...done.metadata, annotations: rest } })
    await it.when('withdrawn', found => found.status?.appliedHash !== done.status?.appliedHash && isAtRest(found))
    expect((await shown('withdrawn')).app).toBe(before.app)
    expect(await it.tasksOf('withdrawn')).toHaveLength(2)
  })

  test('of a suspended database fails, and its passwords are unchanged', async () => {
    await made('asleep')
    const before = await shown('asleep')
    await editSpec(it.cluster(), 'asleep', spec => ({ ...spec, suspended: true }))
    await it.when('asleep', found => isPhase('suspended')(found) && isAtRest(found))
    await untilReconciledAfter('asleep', await requestRotations('asleep', { app: 'please' }), 'suspended')
    const tasks = await it.tasksOf('asleep')
    const task = tasks.find(({ spec }) => spec.name === 'rotate-password-managed')
    expect(task?.status).toMatchObject({ phase: 'failed', error: expect.stringMatching(/suspended/) })
    await editSpec(it.cluster(), 'asleep', spec => ({ ...spec, suspended: false }))
    await it.when('asleep', found => isPhase('available')(found) && isAtRest(found))
    expect(passwordsOf(await shown('asleep'))).toEqual(passwordsOf(before))
    expect(await valid('asleep')).toEqual(passwordsOf(before))
  })

  test('requested with a new database is no operation', async () => {
    const { metadata } = await it.cluster().create('ManagedDatabase', {
      apiVersion: 'espalier.dev/v1alpha1',
      kind: 'ManagedDatabase',
      metadata: { name: 'fresh', namespace: testNamespace, annotations: { [rotationAnnotations.app]: 'old word' } },
      spec: { region: 'here', size: { name: 'small', version: 1 }, pgVersion: '18' } as ManagedDatabase['spec'],
    })
    await it.when(metadata.name, found => isPhase('available')(found) && isAtRest(found))
    const { secret } = await shown('fresh')
    expect(secret.metadata.annotations).not.toHaveProperty('espalier.dev/rotations')
    expect(await it.tasksOf('fresh')).toHaveLength(1)
  })
})

test('an operator that was frozen before it set a password does not set a replaced one', async () => {
  await made('overtaken')
  const { access } = it.workload().postgres
  const [frozen, thawed, over] = [1, 2, 3].map(() => Promise.withResolvers<void>()) as [
    PromiseWithResolvers<void>,
    PromiseWithResolvers<void>,
    PromiseWithResolvers<void>,
  ]
  const ensureRoles: typeof access.ensureRoles = async (...given) => {
    frozen.resolve()
    await thawed.promise
    await access.ensureRoles(...given).finally(over.resolve)
  }
  await it.stopOperator()
  const first = await startTestOperator(it.installation(), { administrator: { ...access, ensureRoles } })
  await requestRotations('overtaken', { app: '1' })
  await frozen.promise
  await it.startOperator()
  await it.when('overtaken', found => isPhase('available')(found) && isAtRest(found))
  await untilReconciledAfter('overtaken', await requestRotations('overtaken', { app: '2' }))
  const rotated = await shown('overtaken')
  thawed.resolve()
  await over.promise
  expect(await valid('overtaken')).toEqual(passwordsOf(rotated))
  expect(passwordsOf(await shown('overtaken'))).toEqual(passwordsOf(rotated))
  await first.stop()
})

describe('a rotation that Postgres does not apply in time', () => {
  const configuration = { deadlines: { ...testConfiguration.deadlines, modifyingMs: 3000 } }
  const refusing = () => {
    const { access } = it.workload().postgres
    return {
      ...access,
      ensureRoles: async () => {
        // The minimum duration of a real one.
        await sleep(30)
        throw new PostgresError('statement', 'cannot execute ALTER ROLE in a read-only transaction', '25006')
      },
    }
  }
  const restartWith = async (options: Parameters<typeof it.startOperator>[0]) => {
    await it.stopOperator()
    await it.startOperator(options)
  }

  test('fails; the previous password stays valid and is shown again', async () => {
    await made('refused')
    const before = await shown('refused')
    await restartWith({ configuration, administrator: refusing() })
    const requested = await requestRotations('refused', { app: 'please' })
    const during = await eventually(
      () => shown('refused'),
      ({ secret }) => secret.data?.['app.previous'] !== undefined,
    )
    expect(during.app).not.toBe(before.app)
    expect(await valid('refused')).toEqual(passwordsOf(before))
    await untilReconciledAfter('refused', requested)
    const after = await shown('refused')
    expect(passwordsOf(after)).toEqual(passwordsOf(before))
    expect(Object.keys(after.secret.data ?? {})).not.toContain('app.previous')
    const task = (await it.tasksOf('refused')).find(({ spec }) => spec.name === 'rotate-password-managed')
    expect(task?.status).toMatchObject({
      phase: 'failed',
      error: expect.stringMatching(/the password of app could not/),
    })
    await restartWith({})
    // It is not done later by itself, but the next rotation is.
    await untilReconciledAfter('refused', await requestRotations('refused', { app: 'again' }))
    const next = await shown('refused')
    expect(next.app).not.toBe(during.app)
    expect(await valid('refused')).toEqual(passwordsOf(next))
  })

  test('while Postgres is unreachable is corrected when it answers, whichever password it has', async () => {
    for (const isTaken of [false, true]) {
      const name = `gone${isTaken}`
      await made(name)
      const before = await shown(name)
      const { postgres } = it.workload()
      const pod = await it.child('Pod', name, 'pod')
      const address = pod?.status?.podIP ?? ''
      const { uid = '' } = (await it.child('PersistentVolumeClaim', name, 'claim'))?.metadata ?? {}
      const digest = (await dataOf(name)).configuration.inForce
      // The connection breaks as Postgres gets the new password, which may or may not be set.
      const administrator = {
        ...postgres.access,
        ensureRoles: async (...given: Parameters<typeof postgres.access.ensureRoles>) => {
          if (isTaken) await postgres.access.ensureRoles(...given)
          postgres.stop(address)
          await sleep(30)
          throw new PostgresError('network', 'read ECONNRESET', 'ECONNRESET')
        },
      }
      await restartWith({ configuration, administrator })
      const requested = await requestRotations(name, { app: 'please' })
      const failed = await it.when(
        name,
        found => isAtRest(found) && found.status?.appliedHash !== requested.status?.appliedHash,
      )
      expect(failed.status?.phase).toBe('degraded')
      expect(Object.keys((await shown(name)).secret.data ?? {})).toContain('app.previous')
      await postgres.start(address, uid, digest)
      await restartWith({})
      await it.when(name, isPhase('available'))
      const after = await eventually(
        () => shown(name),
        ({ secret }) => secret.data?.['app.previous'] === undefined,
      )
      expect(after.app === before.app).toBe(!isTaken)
      expect(await valid(name)).toEqual(passwordsOf(after))
    }
  })
})
