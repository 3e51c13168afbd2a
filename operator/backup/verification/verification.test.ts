/** Backups that are verified: by themselves and when asked, on copies that never stay. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { annotations, type Backup, childNames } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { at, useBackups } from '../../testing/backups.ts'
import { soundCopy, startFakeVerifier } from '../../testing/fake-verifier.ts'
import { useInstallation } from '../../testing/fixture.ts'
import { createFuse } from '../../testing/fuse.ts'
import { editSpec, eventually } from '../../testing/installation.ts'

const it = useInstallation()
const { get, when, ask, taken, gone, restarted } = useBackups(it)

let verifier: Awaited<ReturnType<typeof startFakeVerifier>>
beforeAll(async () => {
  verifier = await startFakeVerifier(it.cluster())
})
beforeEach(() => verifier.says(soundCopy))
afterAll(() => verifier.stop())

const stands = (name: string, verification: string) => when(name, ({ status }) => status?.verification === verification)
const nameOf = (backup: Backup | undefined) =>
  childNames.verification(backup?.metadata.labels?.['espalier.dev/id'] ?? '')
const left = async (backup: Backup | undefined) => {
  const key = at(nameOf(backup))
  const found = await Promise.all(
    (['Pod', 'PersistentVolumeClaim', 'NetworkPolicy'] as const).map(kind => it.cluster().get(kind, key)),
  )
  return found.filter(object => object !== undefined)
}
const nothingLeft = (backup: Backup | undefined) =>
  eventually(
    () => left(backup),
    found => found.length === 0,
  )
const verify = async (name: string, mark: string) => {
  for (;;) {
    const backup = await get(name)
    if (backup === undefined) throw new Error('there is no such backup')
    const metadata = { ...backup.metadata, annotations: { ...backup.metadata.annotations, [annotations.verify]: mark } }
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
  test('is verified by itself, in a closed pod on a copy, of which nothing stays', async () => {
    await it.create('nightly')
    await ask('nightly-1', 'nightly', { purpose: 'scheduled' })
    const backup = await stands('nightly-1', 'verified')
    const counts = { databases: 3, relations: 200, indexes: 500, pages: 4_000, faults: 0, version: '18.4' }
    expect(backup?.status).toMatchObject({ phase: 'completed', verificationResult: counts })
    await nothingLeft(backup)
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

  test('is not where its database says so; one that somebody asked for is when that is asked as well', async () => {
    await it.create('unasked')
    await editSpec(it.cluster(), 'unasked', spec => ({ ...spec, backup: { ...spec.backup, verify: 'none' } }))
    await ask('unasked-1', 'unasked', { purpose: 'scheduled' })
    await when('unasked-1', ({ status }) => status?.phase === 'completed')
    const backup = await taken('unasked-2', 'unasked')
    expect(backup?.status?.verification).toBeUndefined()
    await verify('unasked-2', 'once')
    expect((await stands('unasked-2', 'verified'))?.status?.verificationResult?.asked).toBe('once')
    await nothingLeft(backup)
    const before = verifier.seen.length
    verifier.says({ exitCode: 70, message: 'out of memory' })
    await verify('unasked-2', 'twice')
    const again = await stands('unasked-2', 'failed')
    expect(again?.status?.verificationResult?.error).toBe('not checked: its copy ended with code 70: out of memory')
    expect(verifier.seen.length).toBe(before + 3)
    expect((await get('unasked-1'))?.status?.verification).toBeUndefined()
    await findingOf('unasked', 'LastBackupNotVerified')
  })
})

describe('a copy that is damaged', () => {
  test('is told of by the backup, by its database and as events, until a later one is sound', async () => {
    await it.create('damaged')
    const message = { ...JSON.parse(soundCopy.message), faults: 2, findings: ['page 7 does not match', 'public.t: x'] }
    verifier.says({ exitCode: 0, message: JSON.stringify(message) })
    await ask('damaged-1', 'damaged', { purpose: 'scheduled' })
    const backup = await stands('damaged-1', 'failed')
    expect(backup?.status?.verificationResult).toMatchObject({
      faults: 2,
      error: '2 found: page 7 does not match; public.t: x',
    })
    const told = await findingOf('damaged', 'BackupDamaged')
    expect(conditionOf(told.status, 'BackupsReady')?.message).toMatch(/backup damaged-1 is damaged/)
    await eventually(
      async () => (await it.cluster().list('Event')).items.filter(({ reason }) => reason === 'BackupNotVerified'),
      events => new Set(events.map(({ involvedObject }) => involvedObject.kind)).size === 2,
    )
    await nothingLeft(backup)
    verifier.says(soundCopy)
    await verify('damaged-1', 'again')
    await stands('damaged-1', 'verified')
    await findingOf('damaged', undefined)
  })
})

describe('a check under way', () => {
  test('is begun anew on a fresh copy where pod or copy are lost', async () => {
    await it.create('lost')
    verifier.says(undefined)
    await ask('lost-1', 'lost', { purpose: 'scheduled' })
    const backup = await stands('lost-1', 'pending')
    const uids = () => left(backup).then(found => found.map(({ metadata }) => metadata.uid ?? ''))
    const first = await eventually(uids, found => found.length === 3)
    await it.cluster().delete('Pod', at(nameOf(backup)))
    await eventually(uids, found => found.length === 3 && found.every(uid => !first.includes(uid)))
    await verifier.endAll()
    await stands('lost-1', 'verified')
    await nothingLeft(backup)
  })

  test('is one of two at most; the next takes its turn', async () => {
    await it.create('queue')
    verifier.says(undefined)
    for (const number of [1, 2, 3]) await ask(`queue-${number}`, 'queue', { purpose: 'scheduled' })
    const third = await stands('queue-3', 'pending')
    for (const number of [1, 2]) {
      const backup = await get(`queue-${number}`)
      await eventually(
        () => left(backup),
        found => found.length === 3,
      )
    }
    expect(await left(third)).toEqual([])
    await verifier.endAll()
    await eventually(
      () => left(third),
      found => found.length === 3,
    )
    await verifier.endAll()
    for (const number of [1, 2, 3]) await stands(`queue-${number}`, 'verified')
  })

  test.each(['NetworkPolicy', 'PersistentVolumeClaim', 'Pod'] as const)(
    'comes to nothing where a %s that somebody else made has its name, which stays as it is',
    async kind => {
      const database = `squatted${kind.toLowerCase()}`
      await it.create(database)
      const backup = await taken(`${database}-1`, database)
      const metadata = at(nameOf(backup))
      const theirs = {
        NetworkPolicy: { apiVersion: 'networking.k8s.io/v1', kind, metadata, spec: { podSelector: {} } },
        PersistentVolumeClaim: {
          apiVersion: 'v1',
          kind,
          metadata,
          spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
        },
        Pod: { apiVersion: 'v1', kind, metadata, spec: { containers: [{ name: 'c', image: 'i' }] } },
      }[kind] as never // of the kind that it is made as
      const { uid } = (await it.cluster().create(kind, theirs)).metadata
      const before = verifier.seen.length
      await verify(`${database}-1`, 'asked')
      const checked = await stands(`${database}-1`, 'failed')
      expect(checked?.status?.verificationResult?.error).toBe(
        `not checked: the ${kind} ${metadata.name} is in the way: it is there already, and was not made for this`,
      )
      const found = await eventually(
        () => left(backup),
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

  test('goes with its backup, and ends where it takes too long', async () => {
    await it.create('ended')
    verifier.says(undefined)
    await ask('ended-1', 'ended', { purpose: 'scheduled' })
    const backup = await stands('ended-1', 'pending')
    await eventually(
      () => left(backup),
      found => found.length === 3,
    )
    await it.cluster().delete('Backup', at('ended-1'))
    await gone('ended-1')
    expect(await left(backup)).toEqual([])

    await ask('ended-2', 'ended', { purpose: 'scheduled' })
    const slow = await stands('ended-2', 'pending')
    await eventually(
      () => left(slow),
      found => found.length === 3,
    )
    const day = 24 * 3600_000
    await restarted({ now: () => Date.now() + day })
    expect((await stands('ended-2', 'failed'))?.status?.verificationResult?.error).toMatch(
      /^not checked: .* not through after 14[34]\d minutes$/,
    )
    await nothingLeft(slow)
    await restarted()
  })

  test('is of a kept backup as well, whose database is gone', async () => {
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
    await nothingLeft(backup)
  })

  test('a crash after any effect leaves one result and nothing else', async () => {
    await it.create('sweep')
    for (let after = 1; ; after++) {
      const name = `sweep-${after}`
      await taken(name, 'sweep')
      await it.stopOperator()
      await verify(name, 'swept')
      const fuse = createFuse(after)
      await it.startOperator({ wrap: fuse.cluster })
      const isDone = async () => {
        const backup = await get(name)
        return backup?.status?.verification === 'verified' && (await left(backup)).length === 0
      }
      await eventually(
        async () => fuse.isBlown || (await isDone()),
        over => over,
      )
      const wasBlown = fuse.isBlown
      if (wasBlown) await restarted()
      const backup = await stands(name, 'verified')
      await nothingLeft(backup)
      if (!wasBlown) return expect(after).toBeGreaterThan(6)
    }
  })
})
