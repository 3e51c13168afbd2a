/**
 * An authority is replaced while databases serve. Each database loads the new authority, and none is restarted or
 * unreachable.
 */
import { X509Certificate } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Secret } from '../../cluster/index.ts'
import { createInformer } from '../../cluster/informer/index.ts'
import { childNames, labels, systemNamespace } from '../../crds/index.ts'
import {
  acknowledgedAnnotation,
  certificatesDigest,
  gatewayComponent,
  gatewayLeaseName,
  gatewayLeaseSeconds,
  httpsCertificatesAnnotation,
} from '../../routes/route.ts'
import {
  authorityConfigMap,
  authoritySecret,
  authorityStateSecret,
  gatewayHttpsSecret,
  nextAuthoritySecret,
  rotateAnnotation,
  systemCertificates,
} from '../../sealing/credentials.ts'
import { microTime } from '../../values/time.ts'
import { authorityOf } from '../keys.ts'
import { createAuthority } from '../pki/index.ts'
import { condition, isPhase, useInstallation } from '../testing/fixture.ts'
import {
  databaseDraft,
  editSpec,
  eventually,
  silent,
  testConfiguration,
  testNamespace,
} from '../testing/installation.ts'
import { progressAnnotation, readState } from './state.ts'

const brisk = { announceMs: 0, settleMs: 0, lookMs: 5 }
const certificates = { api: { dnsNames: ['api.test'], ipAddresses: [] } }
const it = useInstallation({ configuration: { authority: brisk, certificates } })

const secret = (name: string) => it.cluster().get('Secret', { namespace: systemNamespace, name })
const given = async () => authorityOf(await secret(authoritySecret))?.cert
const published = async () => {
  const map = await it.cluster().get('ConfigMap', { namespace: systemNamespace, name: authorityConfigMap })
  return map?.data?.['ca.crt'] ?? ''
}
const state = async () => readState(await secret(authorityStateSecret))
const progress = async () => (await secret(authorityStateSecret))?.metadata.annotations?.[progressAnnotation]
const rotate = async () => {
  const found = await secret(authoritySecret)
  if (found === undefined) throw new Error('no authority')
  const annotations = { ...found.metadata.annotations, [rotateAnnotation]: 'true' }
  await it.cluster().replace('Secret', { ...found, metadata: { ...found.metadata, annotations } })
}
const put = (name: string, { cert, key } = createAuthority()) =>
  it.cluster().create('Secret', {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace: systemNamespace, name },
    data: { 'tls.crt': Buffer.from(cert).toString('base64'), 'tls.key': Buffer.from(key).toString('base64') },
  })
const replaced = (before: string | undefined) =>
  eventually(
    async () => ({ cert: await given(), next: await secret(nextAuthoritySecret), state: await state() }),
    now =>
      now.cert !== undefined &&
      now.cert !== before &&
      now.next === undefined &&
      now.state?.authorities.length === 1 &&
      now.state.authorities[0]?.cert === now.cert,
  )
const tlsOf = async (database: string) => {
  const text = (found: Secret | undefined, key: string) => Buffer.from(found?.data?.[key] ?? '', 'base64').toString()
  const found = await it.child('Secret', database, 'tls')
  return { cert: text(found, 'tls.crt'), ca: text(found, 'ca.crt') }
}
const startsOf = async (database: string) =>
  it.workload().postgres.starts.get((await it.database(database))?.status?.volume?.uid ?? '')

describe('an authority', () => {
  const served = ['one', 'two', 'three']
  const complaints: string[] = []
  let unsubscribe = async () => {}

  beforeAll(async () => {
    for (const name of served) await it.create(name, { ipAllowlist: { rules: [{ cidr: '0.0.0.0/0' }] } })
    await it.create('resting', { suspended: true })
    const databases = createInformer(it.cluster(), 'ManagedDatabase', { namespace: testNamespace, logger: silent })
    databases.onChange(({ object }) => {
      const ready = condition(object, 'Ready')
      if (served.includes(object.metadata.name) && ready?.status !== 'True')
        complaints.push(`${object.metadata.name}: ${ready?.message}`)
      if (object.status?.operation !== undefined && served.includes(object.metadata.name))
        complaints.push(`${object.metadata.name}: ${object.status.operation.name}`)
    })
    await databases.start()
    unsubscribe = () => databases.stop()
  })
  afterAll(() => unsubscribe())

  const expectServed = async (cert: string | undefined) => {
    for (const name of served) {
      const tls = await tlsOf(name)
      expect(tls.ca).toBe(cert)
      expect(new X509Certificate(tls.cert).verify(new X509Certificate(cert ?? '').publicKey)).toBe(true)
      expect(await startsOf(name), 'it was never restarted').toBe(1)
    }
    expect(complaints).toEqual([])
  }

  test('is replaced by a new one if the annotation requests it', async () => {
    const before = await given()
    const bundles = new Set<string>()
    const maps = createInformer(it.cluster(), 'ConfigMap', { namespace: systemNamespace, logger: silent })
    maps.onChange(({ object }) => {
      if (object.metadata.name === authorityConfigMap) bundles.add(object.data?.['ca.crt'] ?? '')
    })
    await maps.start()
    await rotate()
    const { cert } = await replaced(before)
    await eventually(published, text => text === cert)
    await maps.stop()
    expect(bundles).toEqual(new Set([before, `${before}${cert}`, `${cert}${before}`, cert]))
    expect((await secret(authoritySecret))?.immutable).toBe(true)
    const own = await eventually(
      () => secret(systemCertificates.api),
      found => Buffer.from(found?.data?.['ca.crt'] ?? '', 'base64').toString() === cert,
    )
    const shown = new X509Certificate(Buffer.from(own?.data?.['tls.crt'] ?? '', 'base64'))
    expect(shown.verify(new X509Certificate(cert ?? '').publicKey)).toBe(true)
    await expectServed(cert)
  })

  test('is trusted as long as a gateway serves HTTPS with its certificate', async () => {
    const before = await given()
    const served = async () => {
      const found = await eventually(() => secret(gatewayHttpsSecret), Boolean)
      const texts = Object.entries(found?.data ?? {}).filter(([key]) => key.endsWith('.crt'))
      return certificatesDigest(texts.map(([, text]) => Buffer.from(text, 'base64').toString()))
    }
    const serve = (digest: string) =>
      it.cluster().apply('Lease', {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: {
          namespace: systemNamespace,
          name: gatewayLeaseName('late'),
          labels: { [labels.component]: gatewayComponent },
          annotations: { [acknowledgedAnnotation]: '999999999', [httpsCertificatesAnnotation]: digest },
        },
        spec: { holderIdentity: 'late', renewTime: microTime(Date.now()), leaseDurationSeconds: gatewayLeaseSeconds },
      })
    await serve(await served())
    await rotate()
    await eventually(progress, text => text?.includes(`the gateway ${gatewayLeaseName('late')}`) === true)
    expect(await published()).toContain(before)
    await serve(await served())
    const { cert } = await replaced(before)
    const key = { namespace: systemNamespace, name: gatewayLeaseName('late') }
    await it.cluster().delete('Lease', key)
    await expectServed(cert)
  })

  test('that a user writes into the Secret replaces the old authority', async () => {
    const before = await given()
    await it.stopOperator()
    await it.cluster().delete('Secret', { namespace: systemNamespace, name: authoritySecret })
    await put(authoritySecret)
    await it.startOperator()
    const { cert } = await replaced(before)
    await expectServed(cert)
  })

  test('replaced during a suspension signs the certificate when the database is resumed', async () => {
    expect((await tlsOf('resting')).ca).toBe(await given())
    await editSpec(it.cluster(), 'resting', spec => ({ ...spec, suspended: false }))
    await it.when(
      'resting',
      found => condition(found, 'Ready')?.reason === 'Serving' || found.status?.phase === 'available',
    )
  })

  test('does not sign while a server does not answer; the progress names the server', async () => {
    const before = await given()
    const data = it.workload().postgres.data.get((await it.database('two'))?.status?.volume?.uid ?? '')
    if (data === undefined) throw new Error('no data')
    data.isSlow = true
    await put(nextAuthoritySecret)
    await eventually(progress, text => text?.endsWith(`waiting for ${testNamespace}/two`) === true)
    const waiting = await state()
    expect(waiting?.authorities.map(({ use }) => use)).toEqual(['signs', 'trusted'])
    expect(waiting?.authorities[0]?.cert).toBe(before)
    data.isSlow = false
    await it
      .workload()
      .restart({ namespace: testNamespace, name: (await it.child('Pod', 'two', 'pod'))?.metadata.name ?? '' })
    const { cert } = await replaced(before)
    complaints.length = 0
    await expectServed(cert)
  })

  test('not created by Espalier is not used', async () => {
    const before = await given()
    const foreign = { cert: createAuthority().cert, key: createAuthority().key }
    await put(nextAuthoritySecret, foreign)
    await it.create('four')
    expect(await state()).toMatchObject({ authorities: [{ cert: before, use: 'signs' }] })
    await it.cluster().delete('Secret', { namespace: systemNamespace, name: nextAuthoritySecret })
    await expectServed(before)
  })

  test('withdrawn before it signs is removed from the trusted authorities', async () => {
    const before = await given()
    await it.stopOperator()
    await it.startOperator({ configuration: { authority: { ...brisk, announceMs: 3600_000 }, certificates } })
    await put(nextAuthoritySecret)
    await eventually(state, now => now?.authorities.length === 2)
    await it.cluster().delete('Secret', { namespace: systemNamespace, name: nextAuthoritySecret })
    await eventually(state, now => now?.authorities.length === 1)
    expect(await given()).toBe(before)
    await expectServed(before)
  })

  test('that has expired or is not valid yet is not used', async () => {
    const before = await given()
    for (const years of [-11, 1]) {
      await put(
        nextAuthoritySecret,
        createAuthority(() => Date.now() + years * 365 * 86_400_000),
      )
      await it.create(`beside${Math.abs(years)}`)
      expect(await state()).toMatchObject({ authorities: [{ cert: before, use: 'signs' }] })
      await it.cluster().delete('Secret', { namespace: systemNamespace, name: nextAuthoritySecret })
    }
    await expectServed(before)
  })

  test('lost with its state locks the operator out of Postgres, but restarts no database', async () => {
    const lost = authorityOf(await secret(authoritySecret))
    await it.stopOperator()
    for (const name of [authoritySecret, authorityStateSecret])
      await it.cluster().delete('Secret', { namespace: systemNamespace, name })
    await put(authoritySecret)
    await it.startOperator()
    const reported = await it.when('one', found => condition(found, 'Ready')?.reason === 'NotTrusted')
    expect(condition(reported, 'Ready')?.message).toMatch(/restore that Secret, or restart Postgres/)
    expect(await startsOf('one')).toBe(1)
    await it.cluster().delete('Secret', { namespace: systemNamespace, name: authoritySecret })
    await put(authoritySecret, lost)
    await it.when('one', found => condition(found, 'Ready')?.reason === 'Serving')
    await eventually(state, now => now?.authorities.length === 1 && now.authorities[0]?.cert === lost?.cert)
    complaints.length = 0
    await expectServed(lost?.cert)
  })

  test('is replaced twice while databases are created, stopped, started and deleted', async () => {
    await it.create('going')
    await it.create('stopping')
    const before = await given()
    await rotate()
    await it.cluster().create('ManagedDatabase', databaseDraft('made', {}))
    await editSpec(it.cluster(), 'stopping', spec => ({ ...spec, suspended: true }))
    await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'going' })
    const { cert: once } = await replaced(before)
    await rotate()
    await editSpec(it.cluster(), 'stopping', spec => ({ ...spec, suspended: false }))
    await editSpec(it.cluster(), 'made', spec => ({ ...spec, suspended: true }))
    const { cert } = await replaced(once)
    await it.untilDeleted('going')
    await it.when('made', isPhase('suspended'))
    await it.when('stopping', isPhase('available'))
    for (const name of ['made', 'stopping']) expect((await tlsOf(name)).ca).toBe(cert)
    await expectServed(cert)
  })

  test('is replaced although a database has lost its volume', async () => {
    const { status } = await it.create('lost')
    await it.stopOperator()
    const claim = { namespace: testNamespace, name: status?.volume?.claim ?? '' }
    const volumeName = (await it.cluster().get('PersistentVolumeClaim', claim))?.spec?.volumeName ?? ''
    await it
      .cluster()
      .delete('StatefulSet', { namespace: testNamespace, name: childNames.statefulSet(await it.idOf('lost'), 1) })
    await it.cluster().delete('PersistentVolumeClaim', claim)
    await it.cluster().delete('PersistentVolume', { name: volumeName })
    await it.startOperator()
    await it.when('lost', isPhase('failed'))
    const before = await given()
    await rotate()
    const { cert } = await replaced(before)
    await expectServed(cert)
  })

  test('that expires within a year is replaced automatically', async () => {
    const before = await given()
    await it.stopOperator()
    const nearlyTenYears = 3400 * 86_400_000
    const now = () => Date.now() + nearlyTenYears
    await it.startOperator({ now, configuration: { ...testConfiguration, authority: brisk, certificates } })
    const { cert } = await replaced(before)
    expect(new X509Certificate(cert ?? '').validToDate.getTime()).toBeGreaterThan(now() + 3600 * 86_400_000)
  })
})
