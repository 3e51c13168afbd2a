import { X509Certificate } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemNamespace } from '../../crds/index.ts'
import { authorityConfigMap, systemCertificates } from '../../sealing/credentials.ts'
import type { Operator } from '../index.ts'
import { issueClientCertificate, issueServerCertificate } from '../pki/index.ts'
import {
  eventually,
  type Installation,
  openInstallation,
  startTestOperator,
  testConfiguration,
} from '../testing/installation.ts'

let installation: Installation
let operator: Operator | undefined

const names = (...dnsNames: string[]) => ({ dnsNames, ipAddresses: ['127.0.0.1'] })
const start = async (certificates: object) => {
  await operator?.stop()
  operator = await startTestOperator(installation, { configuration: { ...testConfiguration, certificates } })
}

beforeAll(async () => {
  installation = await openInstallation()
})
afterAll(async () => {
  await operator?.stop()
  await installation.close()
})

const secretOf = (server: keyof typeof systemCertificates) =>
  installation.cluster.get('Secret', { namespace: systemNamespace, name: systemCertificates[server] })
const published = () => installation.cluster.get('ConfigMap', { namespace: systemNamespace, name: authorityConfigMap })
const pem = (data: Record<string, string> | undefined, key: string) =>
  Buffer.from(data?.[key] ?? '', 'base64').toString('utf8')
const certificateOf = async (server: keyof typeof systemCertificates) =>
  new X509Certificate(pem((await secretOf(server))?.data, 'tls.crt'))
const issued = (server: keyof typeof systemCertificates) =>
  eventually(
    () => secretOf(server),
    found => found !== undefined,
  )

describe('the certificates of our own servers', () => {
  test('are issued for their names, wildcards and addresses, and verify', async () => {
    await start({ api: names('api.test'), gateway: names('gateway.test', '*.db.test') })
    await issued('api')
    await issued('gateway')
    const gateway = await certificateOf('gateway')
    expect([gateway.checkHost('shop-1.db.test'), gateway.checkIP('127.0.0.1')]).not.toContain(undefined)
    expect(gateway.verify(new X509Certificate(installation.authority.cert).publicKey)).toBe(true)
    expect((await secretOf('api'))?.type).toBe('kubernetes.io/tls')
    const { resourceVersion } = (await secretOf('gateway'))?.metadata ?? {}
    // Another operator with the same names: the certificates are valid, and kept.
    await start({ api: names('api.test'), gateway: names('gateway.test', '*.db.test') })
    await operator?.synced()
    await installation.cluster.delete('ConfigMap', { namespace: systemNamespace, name: authorityConfigMap })
    await start({ api: names('api.test'), gateway: names('gateway.test', '*.db.test') })
    await eventually(published, found => found !== undefined)
    expect((await secretOf('gateway'))?.metadata.resourceVersion).toBe(resourceVersion)
  })

  test('are issued again for a further name, after a deletion, and before they expire', async () => {
    await start({ api: names('api.test', 'elsewhere.test') })
    const hasName = async () => (await certificateOf('api')).checkHost('elsewhere.test')
    await eventually(hasName, found => found !== undefined)
    await installation.cluster.delete('Secret', { namespace: systemNamespace, name: systemCertificates.api })
    await issued('api')
    const found = await secretOf('api')
    if (found === undefined) throw new Error('the object is missing')
    const old = issueServerCertificate(
      installation.authority,
      { dnsNames: ['api.test', 'elsewhere.test'], ipAddresses: ['127.0.0.1'], days: 90 },
      () => Date.now() - 61 * 86400_000,
    )
    const encoded = (text: string) => Buffer.from(text).toString('base64')
    const data = { ...found.data, 'tls.crt': encoded(old.cert), 'tls.key': encoded(old.key) }
    await installation.cluster.replace('Secret', { ...found, data })
    const isNew = async () => (await certificateOf('api')).validFromDate.getTime() > Date.now() - 86400_000
    await eventually(isNew, value => value)
  })

  test('for clients of the database agents: always for the API, for metrics only if configured', async () => {
    await start({})
    await issued('apiClient')
    const api = await certificateOf('apiClient')
    expect(api.subject).toBe('CN=espalier-api')
    // The purpose is client authentication only (RFC 5280, 4.2.1.12).
    expect(api.keyUsage).toEqual(['1.3.6.1.5.5.7.3.2'])
    expect(await secretOf('metricsClient')).toBeUndefined()
    await start({ metricsClient: true })
    await issued('metricsClient')
    expect((await certificateOf('metricsClient')).subject).toBe('CN=espalier-metrics')
    expect((await certificateOf('apiClient')).fingerprint256).toBe(api.fingerprint256)
    const found = await secretOf('apiClient')
    if (found === undefined) throw new Error('the object is missing')
    const other = issueClientCertificate(installation.authority, { commonName: 'espalier-metrics', days: 90 })
    const encoded = (text: string) => Buffer.from(text).toString('base64')
    const data = { ...found.data, 'tls.crt': encoded(other.cert), 'tls.key': encoded(other.key) }
    await installation.cluster.replace('Secret', { ...found, data })
    await eventually(
      async () => (await certificateOf('apiClient')).subject,
      subject => subject === 'CN=espalier-api',
    )
  })

  test('of other owners are not replaced, and those not configured are not created', async () => {
    await operator?.stop()
    operator = undefined
    const key = { namespace: systemNamespace, name: systemCertificates.gateway }
    await installation.cluster.delete('Secret', key)
    await installation.cluster.delete('Secret', { ...key, name: systemCertificates.api })
    await installation.cluster.create('Secret', {
      apiVersion: 'v1',
      kind: 'Secret',
      type: 'kubernetes.io/tls',
      metadata: key,
      data: Object.fromEntries(['tls.crt', 'tls.key'].map(name => [name, Buffer.from('theirs').toString('base64')])),
    })
    await start({ gateway: names('gateway.test') })
    await installation.cluster.delete('ConfigMap', { namespace: systemNamespace, name: authorityConfigMap })
    await start({ gateway: names('gateway.test') })
    await eventually(published, found => found !== undefined)
    expect(pem((await secretOf('gateway'))?.data, 'tls.crt')).toBe('theirs')
    expect(await secretOf('api')).toBeUndefined()
  })

  test("publish the authority's certificate and never its key", async () => {
    const { data } = (await published()) ?? {}
    expect(data).toEqual({ 'ca.crt': installation.authority.cert })
    expect(JSON.stringify(data)).not.toContain('PRIVATE')
  })
})
