/** Verified backups: automatically and on request, on copies that are always deleted. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { annotations, type Backup, childNames } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { at, useBackups } from '../../testing/backups.ts'
import { createCrashPoint } from '../../testing/crash-point.ts'
import { soundCopy, startFakeVerifier } from '../../testing/fake-verifier.ts'
import { useInstallation } from '../../testing/fixture.ts'
import { editSpec, eventually } from '../../testing/installation.ts'

const it = useInstallation()
const { get, when, request, taken, untilDeleted, restarted } = useBackups(it)

let verifier: Awaited<ReturnType<typeof startFakeVerifier>>
beforeAll(async () => {
  verifier = await startFakeVerifier(it.cluster())
})
beforeEach(() => verifier.says(soundCopy))
afterAll(() => verifier.stop())

const stands = (name: string, verification: string) => when(name, ({ status }) => status?.verification === verification)
const nameOf = (backup: Backup | undefined) =>
  childNames.verification(backup?.metadata.labels?.['espalier.dev/id'] ?? '')
const remaining = async (backup: Backup | undefined) => {
  const key = at(nameOf(backup))
  const found = await Promise.all(
    (['Pod', 'PersistentVolumeClaim', 'NetworkPolicy'] as const).map(kind => it.cluster().get(kind, key)),
  )
  return found.filter(object => object !== undefined)
}
const untilNothingRemains = (backup: Backup | undefined) =>
  eventually(
    () => remaining(backup),
    found => found.length === 0,
  )
const verify = async (name: string, value: string) => {
  for (;;) {
    const backup = await get(name)
    if (backup === undefined) throw new Error('there is no such backup')
    const metadata = {
      ...backup.metadata,
      annotations: { ...backup.metadata.annotations, [annotations.verify]: value },
    }
    if (
      await it
        .cluster()
        .replace('Backup', { ...backup, metadata })
        .catch(() => undefined)
    )
      return
  }
}
const findingOf = (database: string, reason: string | undefined) =>
  it.when(database, ({ status }) => conditionOf(status, 'BackupsReady')?.reason === reason)

describe('a scheduled backup', () => {
  test('is verified automatically, in an isolated pod on a copy, of which nothing remains', async () => {
    await it.create('nightly')
    await request('nightly-1', 'nightly', { purpose: 'scheduled' })
    const backup = await stands('nightly-1', 'verified')
    const counts = { databases: 3, relations: 200, indexes: 500, pages: 4_000, faults: 0, version: '18.4' }
    expect(backup?.status).toMatchObject({ phase: 'completed', verificationResult: counts })
    await untilNothingRemains(backup)
    const pod = verifier.seen.find(({ metadata }) => metadata.name === nameOf(backup))
    expect(pod?.spec).toMatchObject({
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      volumes: [{ persistentVolumeClaim: { claimName: nameOf(backup) } }, { emptyDir: {} }],
    })
    expect(pod?.spec?.containers[0]).toMatchObject({ command: ['espalier', 'instance', 'verify'] })
    expect(pod?.metadata.ownerReferences).toBeUndefined()
    await findingOf('nightly', undefined)
  })

  test('is not verified if its database disables that; one that a user created is, on request', async () => {
    await it.create('unasked')
    await editSpec(it.cluster(), 'unasked', spec => ({ ...spec, backup: { ...spec.backup, verify: 'none' } }))
    await request('unasked-1', 'unasked', { purpose: 'scheduled' })
    await when('unasked-1', ({ status }) => status?.phase === 'completed')
    const backup = await taken('unasked-2', 'unasked')
    expect(backup?.status?.verification).toBeUndefined()
    await verify('unasked-2', 'once')
    expect((await stands('unasked-2', 'verified'))?.status?.verificationResult?.asked).toBe('once')
    await untilNothingRemains(backup)
    const before = verifier.seen.length
    verifier.says({ exitCode: 70, message: 'out of memory' })
    await verify('unasked-2', 'twice')
    const again = await stands('unasked-2', 'failed')
    expect(again?.status?.verificationResult?.error).toBe(
      'not verified: the verification pod exited with code 70: out of memory',
    )
    expect(verifier.seen.length).toBe(before + 3)
    expect((await get('unasked-1'))?.status?.verification).toBeUndefined()
    await findingOf('unasked', 'LastBackupNotVerified')
  })
})

describe('a copy that is damaged', () => {
  test('is reported by the backup, by its database and by events, until a later copy is intact', async () => {
    await it.create('damaged')
    const message = { ...JSON.parse(soundCopy.message), faults: 2, findings: ['page 7 does not match', 'public.t: x'] }
    verifier.says({ exitCode: 0, message: JSON.stringify(message) })
    await request('damaged-1', 'damaged', { purpose: 'scheduled' })
    const backup = await stands('damaged-1', 'failed')
    expect(backup?.status?.verificationResult).toMatchObject({
      faults: 2,
      error: '2 faults found: page 7 does not match; public.t: x',
    })
    const reported = await findingOf('damaged', 'BackupDamaged')
    expect(conditionOf(reported.status, 'BackupsReady')?.message).toMatch(/backup damaged-1 is damaged/)
    await eventually(
      async () => (await it.cluster().list('Event')).items.filter(({ reason }) => reason === 'BackupNotVerified'),
      events => new Set(events.map(({ involvedObject }) => involvedObject.kind)).size === 2,
    )
    await untilNothingRemains(backup)
    verifier.says(soundCopy)
    await verify('damaged-1', 'again')
    await stands('damaged-1', 'verified')
    await findingOf('damaged', undefined)
  })
})

describe('a running verification', () => {
  test('starts again on a fresh copy if pod or copy are lost', async () => {
    await it.create('lost')
    verifier.says(undefined)
    await request('lost-1', 'lost', { purpose: 'scheduled' })
    const backup = await stands('lost-1', 'pending')
    const uids = () => remaining(backup).then(found => found.map(({ metadata }) => metadata.uid ?? ''))
    const first = await eventually(uids, found => found.length === 3)
    await it.cluster().delete('Pod', at(nameOf(backup)))
    await eventually(uids, found => found.length === 3 && found.every(uid => !first.includes(uid)))
    await verifier.endAll()
    await stands('lost-1', 'verified')
    await untilNothingRemains(backup)
  })

  test('is one of at most two; the next waits for its slot', async () => {
    await it.create('queue')
    verifier.says(undefined)
    for (const number of [1, 2, 3]) await request(`queue-${number}`, 'queue', { purpose: 'scheduled' })
    const third = await stands('queue-3', 'pending')
    for (const number of [1, 2]) {
      const backup = await get(`queue-${number}`)
      await eventually(
        () => remaining(backup),
        found => found.length === 3,
      )
    }
    expect(await remaining(third)).toEqual([])
    await verifier.endAll()
    await eventually(
      () => remaining(third),
      found => found.length === 3,
    )
    await verifier.endAll()
    for (const number of [1, 2, 3]) await stands(`queue-${number}`, 'verified')
  })

  test.each(['NetworkPolicy', 'PersistentVolumeClaim', 'Pod'] as const)(
    'fails if a %s of another owner has its name; that object is not changed',
    async kind => {
      const database = `squatted${kind.toLowerCase()}`
      await it.create(database)
      const backup = await taken(`${database}-1`, database)
      const metadata = at(nameOf(backup))
      const foreign = {
        NetworkPolicy: { apiVersion: 'networking.k8s.io/v1', kind, metadata, spec: { podSelector: {} } },
        PersistentVolumeClaim: {
          apiVersion: 'v1',
          kind,
          metadata,
          spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
        },
        Pod: { apiVersion: 'v1', kind, metadata, spec: { containers: [{ name: 'c', image: 'i' }] } },
      }[kind] as never // of the kind that it is created as
      const { uid } = (await it.cluster().create(kind, foreign)).metadata
      const before = verifier.seen.length
      await verify(`${database}-1`, 'asked')
      const checked = await stands(`${database}-1`, 'failed')
      expect(checked?.status?.verificationResult?.error).toBe(
        `not verified: the ${kind} ${metadata.name} already exists and was not created for this verification`,
      )
      const found = await eventually(
        () => remaining(backup),
        objects => objects.length === 1,
      )
      expect(found[0]?.metadata).toMatchObject({ uid })
      expect(found[0]?.metadata).not.toHaveProperty('deletionTimestamp')
      expect(verifier.seen.length).toBe(before)
      await it.cluster().delete(kind, metadata)
      await verify(`${database}-1`, 'again')
      await stands(`${database}-1`, 'verified')
    },
  )

  test('is deleted with its backup, and ends at its timeout', async () => {
    await it.create('ended')
    verifier.says(undefined)
    await request('ended-1', 'ended', { purpose: 'scheduled' })
    const backup = await stands('ended-1', 'pending')
    await eventually(
      () => remaining(backup),
      found => found.length === 3,
    )
    await it.cluster().delete('Backup', at('ended-1'))
    await untilDeleted('ended-1')
    expect(await remaining(backup)).toEqual([])

    await request('ended-2', 'ended', { purpose: 'scheduled' })
    const slow = await stands('ended-2', 'pending')
    await eventually(
      () => remaining(slow),
      found => found.length === 3,
    )
    const day = 24 * 3600_000
    await restarted({ now: () => Date.now() + day })
    expect((await stands('ended-2', 'failed'))?.status?.verificationResult?.error).toMatch(
      /^not verified: .* did not end within 14[34]\d minutes$/,
    )
    await untilNothingRemains(slow)
    await restarted()
  })

  test('includes a kept backup whose database is deleted', async () => {
    await it.create('kept')
    const backup = await taken('kept-1', 'kept')
    await editSpec(it.cluster(), 'kept', spec => ({ ...spec, deletion: { keepBackups: true } }))
    await it.cluster().delete('ManagedDatabase', at('kept'))
    await eventually(
      () => it.database('kept'),
      found => found === undefined,
    )
    await verify('kept-1', 'kept')
    await stands('kept-1', 'verified')
    await untilNothingRemains(backup)
  })

  test('a crash after any action leaves one result and nothing else', async () => {
    await it.create('sweep')
    for (let after = 1; ; after++) {
      const name = `sweep-${after}`
      await taken(name, 'sweep')
      await it.stopOperator()
      await verify(name, 'swept')
      const crashPoint = createCrashPoint(after)
      await it.startOperator({ wrap: crashPoint.cluster })
      const isDone = async () => {
        const backup = await get(name)
        return backup?.status?.verification === 'verified' && (await remaining(backup)).length === 0
      }
      await eventually(
        async () => crashPoint.hasCrashed || (await isDone()),
        over => over,
      )
      const wasBlown = crashPoint.hasCrashed
      if (wasBlown) await restarted()
      const backup = await stands(name, 'verified')
      await untilNothingRemains(backup)
      if (!wasBlown) return expect(after).toBeGreaterThan(6)
    }
  })
})
