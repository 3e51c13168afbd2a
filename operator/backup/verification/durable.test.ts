/** Durable backups that are verified: one a day as the proof of a tenant, and others when a user requests it. */
import { X509Certificate } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { annotations, type Backup, childNames, labels } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { at, useBackups } from '../../testing/backups.ts'
import { soundCopy, startFakeVerifier } from '../../testing/fake-verifier.ts'
import { useInstallation } from '../../testing/fixture.ts'
import { eventually, testNamespace, withArchive } from '../../testing/installation.ts'
import { kindsOf } from './observe.ts'

const it = useInstallation({ configuration: withArchive })
const backups = useBackups(it)
let verifier: Awaited<ReturnType<typeof startFakeVerifier>>
beforeAll(async () => {
  verifier = await startFakeVerifier(it.cluster())
})
afterAll(() => verifier.stop())

const nameOf = ({ metadata }: Backup) => childNames.verification(metadata.labels?.[labels.id] ?? '')
const remaining = async (backup: Backup) => {
  const kinds = kindsOf(backup)
  const found = await Promise.all(kinds.map(kind => it.cluster().get(kind, at(nameOf(backup)))))
  return kinds.filter((_, index) => found[index] !== undefined)
}
const untilNothingRemains = (backup: Backup) =>
  eventually(
    () => remaining(backup),
    kinds => kinds.length === 0,
  )
const verification = (name: string, wanted: string) =>
  backups.when(name, ({ status }) => status?.verification === wanted) as Promise<Backup>
const whose = async (name: string) => {
  const database = await it.cluster().get('ManagedDatabase', at(name))
  return database?.metadata.labels?.[labels.id]
}

describe('a durable backup', () => {
  test('is restored from the archive as the daily proof, in a pod that reaches nothing else', async () => {
    await it.create('proven', { backup: { durable: true } })
    verifier.says(undefined)
    await backups.request('proven-1', 'proven', { kind: 'durable' })
    const backup = await verification('proven-1', 'pending')
    const key = at(nameOf(backup))
    const pod = await eventually(
      () => it.cluster().get('Pod', key),
      found => found !== undefined,
    )
    const [container] = pod?.spec?.containers ?? []
    const recovered = JSON.parse(container?.args?.at(-1) ?? '')
    expect(recovered).toEqual({
      ...{ archive: withArchive.pods?.archive?.url, id: await whose('proven'), incarnation: 1 },
      ...{ backup: backup.metadata.labels?.[labels.id], target: { kind: 'backup' } },
    })
    const claim = await it.cluster().get('PersistentVolumeClaim', key)
    expect(claim?.spec?.dataSource).toBeUndefined()
    const policy = await it.cluster().get('NetworkPolicy', key)
    expect(policy?.spec).toMatchObject({
      policyTypes: ['Ingress', 'Egress'],
      egress: [{ ports: [{ port: 8443 }] }, {}],
    })
    expect(policy?.spec?.ingress).toBeUndefined()
    const secret = await it.cluster().get('Secret', key)
    const certificate = new X509Certificate(Buffer.from(secret?.data?.['archive.crt'] ?? '', 'base64'))
    expect(certificate.subjectAltName).toBe(`URI:urn:espalier:archive:read:${await whose('proven')}:1`)
    await verifier.endAll()
    const { status } = await verification('proven-1', 'verified')
    expect(status?.verificationResult).toMatchObject({ faults: 0, pages: 4_000 })
    await untilNothingRemains(backup)
  })

  test('then waits for a day, and is verified at once when a user requests it', async () => {
    await backups.request('proven-2', 'proven', { kind: 'durable' })
    await backups.ended('proven-2')
    await setTimeout(300)
    const later = await backups.get('proven-2')
    expect(later?.status?.verification).toBeUndefined()
    if (later === undefined) throw new Error('there is no backup')
    const metadata = { ...later.metadata, annotations: { ...later.metadata.annotations, [annotations.verify]: 'now' } }
    await it.cluster().replace('Backup', { ...later, metadata })
    await verification('proven-2', 'pending')
    await eventually(
      () => remaining(later),
      kinds => kinds.includes('Pod'),
    )
    await verifier.endAll()
    await untilNothingRemains(await verification('proven-2', 'verified'))
  })

  test('is not restored automatically if its database disables verification', async () => {
    await it.create('unproven', { backup: { durable: true, verify: 'none' } })
    await backups.request('unproven-1', 'unproven', { kind: 'durable' })
    await backups.ended('unproven-1')
    await setTimeout(300)
    expect((await backups.get('unproven-1'))?.status?.verification).toBeUndefined()
  })

  test('with missing objects is reported by its database, until a later proof succeeds', async () => {
    const finding = { ...JSON.parse(soundCopy.message), faults: 1, findings: ['0190/1/wal/00 is missing'] }
    const backup = await verification('proven-2', 'verified')
    const request = async (value: string) => {
      const now = (await backups.get('proven-2')) ?? backup
      const changed = { ...now.metadata.annotations, [annotations.verify]: value }
      await it.cluster().replace('Backup', { ...now, metadata: { ...now.metadata, annotations: changed } })
    }
    const reported = (message: string | undefined) =>
      it.when('proven', ({ status }) => conditionOf(status, 'BackupsReady')?.message === message)
    verifier.says({ exitCode: 0, message: JSON.stringify(finding) })
    await request('damaged')
    await reported(`a copy of backup proven-2 from the archive is damaged: 1 fault found: 0190/1/wal/00 is missing`)
    verifier.says(soundCopy)
    await request('sound')
    await reported(undefined)
    await untilNothingRemains(backup)
  })

  test('that is deleted while its copy is checked leaves nothing', async () => {
    verifier.says(undefined)
    const backup = await backups.get('proven-1')
    if (backup === undefined) throw new Error('there is no backup')
    const requested = { ...backup.metadata.annotations, [annotations.verify]: 'again' }
    await it.cluster().replace('Backup', { ...backup, metadata: { ...backup.metadata, annotations: requested } })
    await eventually(
      () => remaining(backup),
      kinds => kinds.includes('Pod'),
    )
    await it.cluster().delete('Backup', { namespace: testNamespace, name: 'proven-1' })
    await backups.untilDeleted('proven-1')
    expect(await remaining(backup)).toEqual([])
  })
})
