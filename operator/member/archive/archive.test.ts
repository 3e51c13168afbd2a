/** A database with the durable tier has the objects for archiving; one without has none of them. */
import { execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { labels } from '../../../crds/index.ts'
import { trustIn } from '../../authority/state.ts'
import { createAuthority } from '../../pki/index.ts'
import { condition, isPhase, useInstallation } from '../../testing/fixture.ts'
import { editSpec, eventually, testConfiguration, testNamespace } from '../../testing/installation.ts'
import { archiveSecretDraft, isGoodArchiveSecret } from './certificate.ts'
import { archiveCommand, markersDirectory } from './settings.ts'

const url = 'https://espalier-archive.espalier-system.svc:8443'
const it = useInstallation({ configuration: { pods: { ...testConfiguration.pods, archive: { url } } } })

const durable = (name: string, value: boolean) =>
  editSpec(it.cluster(), name, spec => ({ ...spec, backup: { ...spec.backup, durable: value } }))
const secretOf = (name: string) => it.child('Secret', name, 'archive')
const podOf = async (name: string) => (await it.child('Pod', name, 'pod'))?.spec

async function partsOf(name: string) {
  const [configuration, policy, pod] = [
    await it.child('ConfigMap', name, 'configuration'),
    await it.child('NetworkPolicy', name, 'service'),
    await podOf(name),
  ]
  const [postgres, agent] = pod?.containers ?? []
  const { data = {} } = configuration ?? {}
  return { settings: data['postgresql.conf'], hba: data['pg_hba.conf'], policy: policy?.spec, postgres, agent, pod }
}

describe('a database with the durable tier', () => {
  test('has a certificate of its incarnation, a replication login, marker files and network access to the archive', async () => {
    await it.create('archived', { backup: { durable: true } })
    const { settings, hba, policy, postgres, agent, pod } = await partsOf('archived')
    const id = await it.idOf('archived')
    const cert = Buffer.from((await secretOf('archived'))?.data?.['archive.crt'] ?? '', 'base64').toString()
    expect(new X509Certificate(cert)).toMatchObject({
      subject: `CN=espalier-archiver-${id}`,
      subjectAltName: `URI:urn:espalier:archive:${id}:1`,
    })
    expect(settings).toContain("archive_command = 'd=$ESPALIER_ARCHIVED;")
    expect(hba).toMatch(
      /replication +espalier_replication +samehost +cert map=espalier_archiver\n.*map=espalier_replication/,
    )
    expect(agent?.args?.slice(-6)).toEqual([
      ...['--archive', url, '--archive-tls', '/etc/espalier/archive', '--archive-markers', markersDirectory],
    ])
    expect(postgres?.env).toContainEqual({ name: 'ESPALIER_ARCHIVED', value: markersDirectory })
    expect(postgres?.volumeMounts?.at(-1)).toMatchObject({ mountPath: markersDirectory, readOnly: true })
    expect(agent?.volumeMounts?.find(({ name }) => name === 'data')?.readOnly).toBe(true)
    expect(pod?.volumes?.find(({ name }) => name === 'archived')).toHaveProperty('emptyDir')
    expect(JSON.stringify(policy?.egress)).toContain('"app.kubernetes.io/component":"archive"')
    expect(JSON.stringify(policy?.ingress?.[1])).toContain('"app.kubernetes.io/component":"operator"')
  })

  test('starts or stops archiving at its next restart; the Secret stays until no pod mounts it', async () => {
    const before = await it.create('changing')
    const plain = await partsOf('changing')
    expect(JSON.stringify(plain)).not.toMatch(/archived|espalier-archiver|espalier_archiver/)
    await durable('changing', true)
    const waits = await it.when('changing', found => condition(found, 'RestartPending') !== undefined)
    expect(waits.status).toMatchObject({ phase: 'available', appliedHash: before.status?.appliedHash })
    expect((await podOf('changing'))?.volumes).toHaveLength(plain.pod?.volumes?.length ?? 0)
    await editSpec(it.cluster(), 'changing', spec => ({ ...spec, suspended: true }))
    await it.when('changing', isPhase('suspended'))
    await editSpec(it.cluster(), 'changing', spec => ({ ...spec, suspended: false }))
    await it.when('changing', isPhase('available'))
    expect((await partsOf('changing')).agent?.args).toContain('--archive')

    await durable('changing', false)
    await it.when('changing', found => condition(found, 'RestartPending') !== undefined)
    expect(await secretOf('changing')).toBeDefined()
    await editSpec(it.cluster(), 'changing', spec => ({ ...spec, suspended: true }))
    await it.when('changing', isPhase('suspended'))
    await eventually(
      () => secretOf('changing'),
      found => found === undefined,
    )
    await editSpec(it.cluster(), 'changing', spec => ({ ...spec, suspended: false }))
    await it.when('changing', isPhase('available'))
    const { policy: _, ...rest } = await partsOf('changing')
    const { policy: __, ...same } = plain
    expect(rest.settings).toBe(same.settings)
    expect(rest.pod).toEqual(same.pod)
  })

  test('gets a deleted Secret again; the Secret is deleted with the database', async () => {
    await it.create('lost', { backup: { durable: true } })
    const id = await it.idOf('lost')
    const secret = await secretOf('lost')
    if (secret === undefined) throw new Error('there is no Secret')
    await it.cluster().delete('Secret', secret.metadata)
    await eventually(
      () => secretOf('lost'),
      found => found !== undefined,
    )
    await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'lost' })
    await it.untilDeleted('lost')
    const { items } = await it.cluster().list('Secret', { namespace: testNamespace, labels: { [labels.database]: id } })
    expect(items).toEqual([])
  })
})

test('the certificate is reissued for another authority or incarnation, and after two thirds of its validity', () => {
  const trust = trustIn(createAuthority())
  const owner = { kind: 'ManagedDatabase', namespace: 'n', name: 'one', uid: 'u', hostLabel: 'one' } as const
  const member = { owner: { ...owner, id: '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f' }, incarnation: 1, number: 0 }
  // A draft is complete. Each call returns a new object, since check results are cached by object.
  const made = () => ({ ...archiveSecretDraft(member, trust, Date.now) }) as Parameters<typeof isGoodArchiveSecret>[0]
  const days = (count: number) => () => Date.now() + count * 86_400_000
  expect(isGoodArchiveSecret(made(), member, trust, days(59))).toBe(true)
  expect(isGoodArchiveSecret(made(), member, trust, days(61))).toBe(false)
  expect(isGoodArchiveSecret(made(), { ...member, incarnation: 2 }, trust, Date.now)).toBe(false)
  expect(isGoodArchiveSecret(made(), member, trustIn(createAuthority()), Date.now)).toBe(false)
})

describe('the archive_command of Postgres', () => {
  let directory = ''
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'espalier-archived-'))
  })
  afterAll(() => rmSync(directory, { recursive: true, force: true }))
  const run = (file: string, environment: Record<string, string>, command = archiveCommand) =>
    promisify(execFile)('sh', ['-c', command.replaceAll('%f', file)], {
      env: { PATH: '/usr/bin:/bin', ...environment },
    })

  test("waits for its file's marker, fails if there is none, and succeeds in a pod that does not archive", async () => {
    const variables = { ESPALIER_ARCHIVED: directory }
    const segment = '000000010000000000000001'
    setTimeout(() => writeFileSync(join(directory, segment), ''), 150)
    await run(segment, variables)
    const short = archiveCommand.replace('-le 50', '-le 1')
    await expect(run('000000010000000000000002', variables, short)).rejects.toMatchObject({ code: 1 })
    await run('000000010000000000000002', {})
  })
})
